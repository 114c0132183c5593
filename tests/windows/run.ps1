<#
.SYNOPSIS
    Installs halprof's driver on a test machine, measures, compares with Windows, and removes it.
.DESCRIPTION
    For a virtual machine or a computer of your own that runs test-signed drivers: docs/windows.md
    tells how to make one. Run it from an elevated PowerShell, in the unpacked package:

        powershell -ExecutionPolicy Bypass -File tests\windows\run.ps1

    It has not been run on a real Windows yet.

    Each step prints PASS, FAIL or SKIP with the reason. All that was seen goes to a log folder, and
    at the end one block of text is printed, to be pasted into a report.
    Ends with 0 where nothing failed, 1 where a step did, 2 where the computer is not ready, and 3
    where it has to be restarted first.
.PARAMETER Package
    The folder with halprof.inf, halprof.sys, halprof.cat, the certificate and halprof.exe.
.PARAMETER Log
    Where the output of every command goes.
.PARAMETER Verifier
    Turns Driver Verifier on for halprof.sys and ends with 3; after the restart run the script again
    without this, and it says that Driver Verifier watched.
.PARAMETER NoSleep
    Does not send the computer to sleep.
.PARAMETER Keep
    Does not remove the driver at the end.
.PARAMETER AbsentRegister
    Has a kernel debugger make the driver read a register that no processor has, and asks for the
    debugger's commands on the way. Where the driver does not catch the exception, Windows stops
    with a bug check.
.PARAMETER WithoutDriver
    Tries Windows' own tracing and installs nothing: only halprof.exe is needed, and neither test
    signing nor a restart.
.PARAMETER TracingRights
    Gives this account the rights to measure by tracing without elevation, looks at them, and takes
    them back.
#>
[CmdletBinding()]
param(
    [string]$Package,
    [string]$Log = (Join-Path $env:TEMP ('halprof-' + (Get-Date -Format 'yyyyMMdd-HHmmss'))),
    [switch]$Verifier,
    [switch]$NoSleep,
    [switch]$Keep,
    [switch]$AbsentRegister,
    [switch]$WithoutDriver,
    [switch]$TracingRights
)

Set-StrictMode -Version 2.0
$ErrorActionPreference = 'Stop'

$Results = New-Object System.Collections.ArrayList
$Session = Join-Path $Log 'etw.etl'

# --- how a step is told ---------------------------------------------------------------------------

function Write-Result([string]$State, [string]$Name, [string]$Reason) {
    $colour = @{ PASS = 'Green'; FAIL = 'Red'; SKIP = 'Yellow' }[$State]
    Write-Host ('{0}  {1}: {2}' -f $State, $Name, $Reason) -ForegroundColor $colour
    [void]$Results.Add([pscustomobject]@{ State = $State; Name = $Name; Reason = $Reason })
}

# A step passes with what its body answers, and fails with what its body throws.
function Invoke-Step([string]$Name, [scriptblock]$Body) {
    try {
        $reason = (& $Body) -join '; '
        Write-Result 'PASS' $Name $reason
    } catch {
        $text = $_.Exception.Message
        if ($text.StartsWith('SKIP ')) {
            Write-Result 'SKIP' $Name $text.Substring(5)
        } else {
            Write-Result 'FAIL' $Name $text
        }
    }
}

function Skip-Step([string]$Reason) {
    throw "SKIP $Reason"
}

function Assert-That([bool]$Holds, [string]$Otherwise) {
    if (-not $Holds) {
        throw $Otherwise
    }
}

# What a report needs, in one piece: the computer, what `doctor` says of it, and every step.
function Write-Report {
    $lines = New-Object System.Collections.ArrayList
    [void]$lines.Add('----- paste from here into the report -----')
    try {
        $processor = @(Get-CimInstance Win32_Processor)
        $computer = Get-CimInstance Win32_ComputerSystem
        [void]$lines.Add("Windows build $($system.CurrentBuild).$($system.UBR), $($system.EditionID); hypervisor: $($computer.HypervisorPresent)")
        [void]$lines.Add("$($processor[0].Name.Trim()), $($computer.NumberOfLogicalProcessors) logical processors; $($processor[0].Description)")
    } catch {
        [void]$lines.Add("the computer does not say what it is: $($_.Exception.Message)")
    }
    $doctor = if ($WithoutDriver) { '--machine etw doctor' } else { 'doctor' }
    try {
        foreach ($check in ((Invoke-Tool 'report-doctor' "--json $doctor").Text | ConvertFrom-Json).checks) {
            [void]$lines.Add("doctor  $($check.state)  $($check.name): $($check.result)")
        }
    } catch {
        [void]$lines.Add("doctor  does not answer: $($_.Exception.Message)")
    }
    foreach ($result in $Results) {
        [void]$lines.Add("$($result.State)  $($result.Name): $($result.Reason)")
    }
    [void]$lines.Add('----- to here -----')
    $lines | Set-Content -Encoding UTF8 (Join-Path $Log 'report.txt')
    Write-Host ''
    $lines | ForEach-Object { Write-Host $_ }
}

function Close-Run([int]$Status) {
    $Results | ConvertTo-Json | Set-Content -Encoding UTF8 (Join-Path $Log 'results.json')
    if ($Status -le 1) {
        Write-Report
    }
    $count = @{ PASS = 0; FAIL = 0; SKIP = 0 }
    foreach ($result in $Results) {
        $count[$result.State]++
    }
    Write-Host ''
    Write-Host ('{0} passed, {1} failed, {2} skipped; log: {3}' -f $count.PASS, $count.FAIL, $count.SKIP, $Log)
    exit $Status
}

# --- halprof.exe ----------------------------------------------------------------------------------

# Starts the tool with its output in files of the log folder.
function Start-Tool([string]$Name, [string]$Arguments) {
    $process = Start-Process -FilePath $Tool -ArgumentList $Arguments -NoNewWindow -PassThru `
        -RedirectStandardOutput (Join-Path $Log "$Name.out") -RedirectStandardError (Join-Path $Log "$Name.err")
    # Windows forgets the exit status of a process whose handle nobody has asked for.
    [void]$process.Handle
    $process
}

function Wait-Tool([string]$Name, $Process, [int]$Seconds) {
    if (-not $Process.WaitForExit(1000 * $Seconds)) {
        $Process.Kill()
        throw "halprof did not end within $Seconds s ($Name)"
    }
    $Process.WaitForExit()
    $text = [string](Get-Content -Raw -Encoding UTF8 (Join-Path $Log "$Name.out"))
    $said = [string](Get-Content -Raw -Encoding UTF8 (Join-Path $Log "$Name.err"))
    [pscustomobject]@{ Status = $Process.ExitCode; Text = $text; Said = $said.Trim() }
}

function Invoke-Tool([string]$Name, [string]$Arguments, [int]$Seconds = 120) {
    Wait-Tool $Name (Start-Tool $Name $Arguments) $Seconds
}

# Runs the tool with --json; throws what it refused and why.
function Get-Answer([string]$Name, [string]$Arguments, [int]$Seconds = 120) {
    $ran = Invoke-Tool $Name "--json $Arguments" $Seconds
    $answer = $null
    if ($ran.Text.Trim()) {
        $answer = $ran.Text | ConvertFrom-Json
    }
    Assert-That ($null -ne $answer) "halprof $Arguments printed no JSON and ended with $($ran.Status): $($ran.Said)"
    if ($answer.schema -eq 'halprof/error/2') {
        throw "$($answer.error.message) ($($answer.error.code), status $($ran.Status)). $($answer.error.hint)"
    }
    Assert-That (-not $answer.modelled) "halprof $Arguments measured a model, not this computer"
    $answer
}

function Get-Sum($Numbers) {
    $sum = [decimal]0
    foreach ($number in $Numbers) {
        $sum += [decimal]$number
    }
    $sum
}

# --- registers ------------------------------------------------------------------------------------

# What decides whether anything counts, on every processor: "processor name" to value.
function Get-ControlRegister([string]$Name) {
    $last = @((Get-Answer "$Name-info" 'info').processors).Count - 1
    $values = @{}
    foreach ($one in (Get-Answer $Name "registers -C 0-$last").processors) {
        foreach ($register in $one.registers) {
            if ($register.name -match 'PERFEVTSEL|PERF_CTL|PERF_LEGACY_CTL|FIXED_CTR_CTRL|GLOBAL_CTRL|GlobalCtl|DEBUGCTL|DebugCtl|LBR_SELECT|LBR_CTL|LBR_DEPTH|DBG_EXTN_CFG') {
                $values["$($one.processor) $($register.name)"] = [Convert]::ToUInt64($register.value.Substring(2), 16)
            }
        }
    }
    $values
}

# Registers that are not what they were before halprof ran: the shared control registers whole, as
# their bits at reset are what others rely on; of a select whether it is enabled (bit 22).
function Get-Difference($Before, $After) {
    foreach ($key in ($After.Keys | Sort-Object)) {
        $mask = [uint64]::MaxValue
        if ($key -match 'PERFEVTSEL|PERF_CTL|PERF_LEGACY_CTL') {
            $mask = [uint64]0x400000
        }
        if (-not $Before.ContainsKey($key)) {
            'processor {0} is 0x{1:x}, and was not read before' -f $key, $After[$key]
        } elseif (($After[$key] -band $mask) -ne ($Before[$key] -band $mask)) {
            'processor {0} is 0x{1:x}, was 0x{2:x}' -f $key, $After[$key], $Before[$key]
        }
    }
}

function Skip-WithoutDriver {
    if ($WithoutDriver) {
        Skip-Step 'no driver is installed (-WithoutDriver)'
    }
}

function Assert-Ready {
    if (-not $Ready) {
        Skip-Step 'nothing can be counted here (doctor)'
    }
}

# Returns what each answer of `doctor --prove` found.
function Assert-Proof([string]$Method, $Proof) {
    Assert-That ($Proof.method -eq $Method) "counted by $($Proof.method)"
    $told = @($Proof.answers | ForEach-Object { "processor $($_.processor), $($_.question): $($_.verdict), $($_.found)" })
    $wrong = @($Proof.answers | Where-Object { $_.verdict -eq 'disagrees' })
    Assert-That ($wrong.Count -eq 0) ($told -join '; ')
    $told
}

function Assert-Clear([string]$Name) {
    $left = @(Get-Difference $Before (Get-ControlRegister $Name))
    Assert-That ($left.Count -eq 0) ('not as before: ' + ($left -join ', ') + '. Another profiler that runs does the same')
}

# --- before anything ------------------------------------------------------------------------------

function Test-Administrator {
    $identity = [Security.Principal.WindowsIdentity]::GetCurrent()
    $principal = New-Object Security.Principal.WindowsPrincipal($identity)
    $principal.IsInRole([Security.Principal.WindowsBuiltInRole]::Administrator)
}

function Test-SecureBoot {
    $state = 'HKLM:\SYSTEM\CurrentControlSet\Control\SecureBoot\State'
    if (-not (Test-Path $state)) {
        return $false
    }
    $values = Get-ItemProperty $state
    ($values.PSObject.Properties.Name -contains 'UEFISecureBootEnabled') -and ($values.UEFISecureBootEnabled -ne 0)
}

function Get-Installed {
    $devices = @(Get-ChildItem 'HKLM:\SYSTEM\CurrentControlSet\Enum\ROOT' -ErrorAction SilentlyContinue |
        Where-Object { $_.PSChildName -eq 'HALPROF' } | Get-ChildItem -ErrorAction SilentlyContinue |
        ForEach-Object { 'device ROOT\HALPROF\' + $_.PSChildName })
    $packages = @(Get-ChildItem (Join-Path $env:SystemRoot 'INF\oem*.inf') |
        Where-Object { Select-String -Quiet -SimpleMatch 'Root\halprof' $_.FullName } |
        ForEach-Object { 'package ' + $_.Name })
    $services = @(if (Test-Path 'HKLM:\SYSTEM\CurrentControlSet\Services\halprof') { 'service halprof' })
    @($devices + $packages + $services)
}

function Test-Verifier {
    [bool](& "$env:SystemRoot\System32\verifier.exe" /query | Select-String -Quiet -SimpleMatch 'halprof.sys')
}

if (-not $Package) {
    $Package = Split-Path (Split-Path $PSScriptRoot)
}
[void](New-Item -ItemType Directory -Force $Log)
$Tool = Join-Path $Package 'halprof.exe'
$Inf = Join-Path $Package 'halprof.inf'
Add-Type -TypeDefinition (Get-Content -Raw (Join-Path $PSScriptRoot 'windows.cs'))
$system = Get-ItemProperty 'HKLM:\SOFTWARE\Microsoft\Windows NT\CurrentVersion'
Write-Host "halprof on Windows build $($system.CurrentBuild).$($system.UBR), log in $Log"

Invoke-Step 'administrator' {
    Assert-That (Test-Administrator) 'start PowerShell with "Run as administrator" and run this again'
    'yes'
}
Invoke-Step 'Windows' {
    Assert-That ([Environment]::Is64BitProcess) 'start the 64-bit PowerShell: %SystemRoot%\System32\WindowsPowerShell\v1.0\powershell.exe'
    Assert-That ([int]$system.CurrentBuild -ge 19041) "build $($system.CurrentBuild) is older than Windows 10 version 2004 (19041)"
    "build $($system.CurrentBuild), 64-bit"
}
Invoke-Step 'Secure Boot' {
    Skip-WithoutDriver
    Assert-That (-not (Test-SecureBoot)) 'it is on, and then no test-signed driver loads. Turn it off in the firmware''s setup; Hyper-V: Set-VMFirmware -VMName NAME -EnableSecureBoot Off, on the host, with the VM off'
    'off'
}
Invoke-Step 'test signing' {
    Skip-WithoutDriver
    $options = [Halprof.Computer]::CodeIntegrityOptions()
    Assert-That (($options -band 2) -ne 0) 'it is off. Run: bcdedit /set testsigning on   then restart: shutdown /r /t 0'
    'on; Memory integrity ' + $(if ($options -band 0x400) { 'on' } else { 'off' })
}
Invoke-Step 'package' {
    if ($WithoutDriver) {
        Assert-That (Test-Path $Tool) "halprof.exe is not in $Package; give the folder with -Package"
        return "$Package, halprof.exe alone"
    }
    foreach ($name in 'halprof.inf', 'halprof.sys', 'halprof.cat', 'halprof.exe') {
        Assert-That (Test-Path (Join-Path $Package $name)) "$name is not in $Package; give the folder with -Package"
    }
    Assert-That (@(Get-ChildItem (Join-Path $Package '*.cer')).Count -eq 1) "there should be one .cer file in $Package"
    $Package
}
if (@($Results | Where-Object { $_.State -eq 'FAIL' }).Count -ne 0) {
    Write-Host 'Not ready: do what FAIL says and run this again. Nothing has been changed.'
    Close-Run 2
}
if ($Verifier) {
    & "$env:SystemRoot\System32\verifier.exe" /standard /driver halprof.sys
    Write-Host 'Driver Verifier watches halprof.sys after a restart. Run: shutdown /r /t 0   then this script without -Verifier.'
    Write-Host 'To turn it off again: verifier /reset   and restart.'
    Close-Run 3
}

# --- what Windows itself has ----------------------------------------------------------------------

$Windows = @()
$EtwBefore = [long]0
$Sampled = $null
Invoke-Step 'the sources of Windows' {
    $script:Windows = @([Halprof.Etw]::Sources())
    $Windows | ConvertTo-Json | Set-Content -Encoding UTF8 (Join-Path $Log 'windows-sources.json')
    "$($Windows.Count) (TraceQueryInformation, class 7)"
}
Invoke-Step 'ETW samples a counter before halprof' {
    # The kernel's own PMC sampling, by StartTrace and TraceSetInformation: logman cannot name a
    # profile source, xperf and tracelog are not part of Windows, and wpr needs a profile file.
    $script:Sampled = $Windows | Where-Object { $_.Name -eq 'InstructionRetired' -or $_.Name -eq 'TotalIssues' } | Select-Object -First 1
    if ($null -eq $Sampled) {
        Skip-Step 'Windows lists no counter here: no PMU, or a hypervisor hides it (docs/windows.md, the virtual machine)'
    }
    $script:EtwBefore = [Halprof.Etw]::Sample($Sampled.Id, 2000, $Session)
    if ($EtwBefore -eq 0) {
        Skip-Step "Windows gets no sample of $($Sampled.Name) either: the counters do not interrupt here"
    }
    "$EtwBefore samples of $($Sampled.Name) in 2 s"
}

# Windows' ordinary CPU sampling (SampledProfile, profile source 0) comes by a counter where there is
# one, so that halprof can take it too.
$CpuBefore = [long]0
Invoke-Step 'ETW samples the CPU before halprof' {
    $script:CpuBefore = [Halprof.Etw]::SampleCpu(2000, $Session)
    if ($CpuBefore -eq 0) {
        Skip-Step 'Windows gets no sample of the CPU'
    }
    "$CpuBefore samples in 2 s"
}

# --- Windows' own tracing, without the driver -----------------------------------------------------

# What runs while it is measured: the same by tracing and by the driver.
$Loop = "powershell.exe -NoProfile -Command `"for (`$n = 0; `$n -lt 3000000; `$n++) { }`""
$Traced = [decimal]0
# Windows' counters and their intervals, as they are now.
function Get-Interval {
    @([Halprof.Etw]::Sources() | Sort-Object Id | ForEach-Object { "$($_.Name) $($_.Interval)" }) -join ', '
}
function Skip-WithoutCounter {
    if (@($Windows | Where-Object { $_.Id -ne 0 }).Count -eq 0) {
        Skip-Step 'Windows lists no counter here, only its timer'
    }
}
$Intervals = Get-Interval

Invoke-Step 'tracing lists what Windows lists' {
    $answer = Get-Answer 'etw-list' '--machine etw list'
    Assert-That ($answer.backend -eq 'etw') "the backend is $($answer.backend)"
    $missing = @($Windows | Where-Object { $answer.sources.id -notcontains $_.Id } | ForEach-Object { $_.Name })
    Assert-That ($missing.Count -eq 0) ('not listed: ' + ($missing -join ', '))
    $owner = (Get-Answer 'etw-doctor' '--machine etw doctor').checks | Where-Object { $_.name -eq 'owner' }
    "$(@($answer.sources).Count) sources; who holds counters: $(if ($owner) { $owner.result } else { 'this Windows does not say' })"
}
# This step has not run yet.
Invoke-Step 'PowerShell completes a source and a command' {
    # The script finds the tool by its name.
    $env:PATH = "$(Split-Path $Tool);$env:PATH"
    Invoke-Expression (Get-Answer 'completions' 'completions powershell').script
    foreach ($case in @(@('halprof --machine etw stat -e TotalIssues CacheMi', 'CacheMisses'), @('halprof repo', 'report'))) {
        $offered = @((TabExpansion2 $case[0] $case[0].Length).CompletionMatches | ForEach-Object { $_.CompletionText })
        Assert-That ($offered -contains $case[1]) "after $($case[0]) it offers: $($offered -join ', ')"
    }
    'by what halprof answers'
}
Invoke-Step 'tracing samples the timer, with call stacks' {
    $file = Join-Path $Log 'timer.rec'
    $spin = Start-Process -WindowStyle Hidden -PassThru powershell.exe '-NoProfile -Command "while ($true) { }"'
    try {
        $answer = Get-Answer 'etw-timer' "--machine etw record -e Timer -d 3 -o `"$file`""
    } finally {
        $spin.Kill()
    }
    Assert-That ($answer.samples -gt 0) 'no sample'
    $stacks = (Get-Answer 'etw-timer-report' "report `"$file`"").stacks
    Assert-That ($null -ne $stacks -and $stacks.samples -gt $stacks.none) 'no sample has a call stack'
    "$($answer.samples) samples; call stacks: $($stacks.samples - $stacks.none), kernel and user $($stacks.both)"
}
# Nothing is missing in what was recorded: a healthy trace that is called damaged is a defect here.
function Assert-Whole([string]$Name, $Report) {
    Assert-That ($null -eq $Report.damaged) "$Name is called damaged: $($Report.damaged)"
    $lost = Get-Sum @($Report.lost.PSObject.Properties | ForEach-Object { $_.Value })
    Assert-That ($lost -eq 0) "$Name has lost $lost events"
}
# The rows of the first table of a report, by its first source.
function Get-Row([string]$Name, [string]$Arguments) {
    @((Get-Answer $Name $Arguments).tables[0].parts[0].rows)
}
# A program names its thread and keeps it busy (SetThreadDescription, Windows 10 version 1607).
$Named = '-NoProfile -Command "Add-Type -Namespace H -Name T -MemberDefinition ''[DllImport(\"kernel32.dll\")] public static extern IntPtr GetCurrentThread(); [DllImport(\"kernel32.dll\", CharSet = CharSet.Unicode)] public static extern int SetThreadDescription(IntPtr thread, string name);''; [void][H.T]::SetThreadDescription([H.T]::GetCurrentThread(), ''halprof worker''); while ($true) { }"'
# The thread with that name has samples in what `record` with these arguments writes.
function Assert-ThreadName([string]$Name, [string]$Arguments) {
    $file = Join-Path $Log "$Name.rec"
    $busy = Start-Process -WindowStyle Hidden -PassThru powershell.exe $Named
    try {
        Start-Sleep -Seconds 3
        [void](Get-Answer $Name "$Arguments -d 3 -o `"$file`"")
    } finally {
        $busy.Kill()
    }
    $rows = Get-Row "$Name-threads" "report `"$file`" --by thread --pid $($busy.Id)"
    $own = @($rows | Where-Object { $_.thread_name -eq 'halprof worker' })
    Assert-That ($own.Count -eq 1) "no thread is called halprof worker: $($rows | ConvertTo-Json -Compress -Depth 3)"
    "thread $($own[0].thread): $($own[0].samples) samples"
}
Invoke-Step 'tracing names threads' { Assert-ThreadName 'etw-threads' '--machine etw record -e Timer' }
# These four steps have not run yet.
Invoke-Step 'tracing counts live' {
    $answer = Get-Answer 'etw-live' '--machine etw stat -e instructions -I 200 -d 3'
    $sum = ($answer.intervals | ForEach-Object { [decimal]$_.counts[0].value } | Measure-Object -Sum).Sum
    Assert-That ($answer.intervals.Count -ge 10) "$($answer.intervals.Count) intervals of 200 ms in 3 s"
    Assert-That ($sum -eq [decimal]$answer.counts[0].value) "the intervals add up to $sum, and the total is $($answer.counts[0].value)"
    Assert-That ($answer.trace.lost_events -eq 0) "$($answer.trace.lost_events) events lost"
    "$sum instructions in $($answer.intervals.Count) intervals, the longest $([math]::Round($answer.jitter.max_ns / 1e6, 1)) ms late"
}
Invoke-Step 'tracing is watched live' {
    $rates = (Get-Answer 'etw-top' '--machine etw top --once -I 1000').counts
    $table = (Get-Answer 'etw-top-by' '--machine etw top --once -I 3000 -e Timer --by process').tables[0]
    $named = @($table.parts[0].rows | Where-Object { $_.process_name })
    Assert-That ($named.Count -ge 1) 'no process has a name'
    "$($rates.Count) rates, $($named.Count) processes"
}
Invoke-Step 'a name that is not ASCII' {
    $name = 'gr' + [char]0xF6 + [char]0xDF + 'e' + [char]0x6E29 + '.exe'
    $copy = Join-Path $Log $name
    Copy-Item -LiteralPath (Join-Path $env:SystemRoot 'System32\PING.EXE') -Destination $copy
    $file = Join-Path $Log 'name.rec'
    $null = Get-Answer 'etw-name' "--machine etw record -e Timer -o `"$file`" -- `"$copy`" -n 3 127.0.0.1"
    $processes = @((Get-Answer 'etw-name-report' "report `"$file`" --by process").by_process.process_name)
    Assert-That ($processes -contains $name) "no process is called $name, but there are $($processes -join ', ')"
    $name
}
Invoke-Step 'a trace lists its events' {
    $file = Join-Path $Log 'events.etl'
    $null = Get-Answer 'etw-events' "--machine etw record -e Timer -d 1 -o `"$file`""
    $kinds = (Get-Answer 'etw-events-report' "report --events `"$file`"").rows
    $samples = @($kinds | Where-Object { $_.name -eq 'SampleProf' })
    Assert-That ($samples.Count -ge 1) "no samples among $($kinds.Count) kinds"
    $contexts = @((Get-Answer 'etw-contexts' "report `"$file`" --by context").tables[0].parts[0].rows.context)
    Assert-That ($contexts -contains 'thread') 'no sample has a context'
    "$($kinds.Count) kinds; contexts: $($contexts -join ', ')"
}
# This step has not run yet.
Invoke-Step 'a trace on standard input' {
    $file = Join-Path $Log 'events.etl'
    $named = (Get-Answer 'input-named' "report `"$file`"").samples
    $process = Start-Process -FilePath $Tool -ArgumentList '--json report -' -NoNewWindow -PassThru -Wait `
        -RedirectStandardInput $file -RedirectStandardOutput (Join-Path $Log 'input.out') `
        -RedirectStandardError (Join-Path $Log 'input.err')
    Assert-That ($process.ExitCode -eq 0) "it ended with $($process.ExitCode)"
    $piped = (Get-Content -Raw -Encoding UTF8 (Join-Path $Log 'input.out') | ConvertFrom-Json).samples
    Assert-That ($piped -eq $named) "$piped samples, and $named of the file by its name"
    "$named samples"
}
# This step has not run yet.
Invoke-Step 'record keeps who ended waits' {
    $file = Join-Path $Log 'waits.etl'
    $null = Get-Answer 'etw-waits' "--machine etw record --off-cpu -e Timer -d 2 -o `"$file`""
    $waits = Get-Answer 'etw-waits-report' "report --off-cpu `"$file`""
    Assert-That ($waits.wakings -gt 0) 'the trace has no ReadyThread'
    $named = @($waits.rows | Where-Object { $_.wakers.Count -gt 0 })
    Assert-That ($named.Count -gt 0) 'nobody is named who ended a wait'
    $ended = (Get-Answer 'etw-wakers-report' "report --off-cpu --by waker `"$file`"").ended_by
    $placed = @($ended | Where-Object { $_.module })
    Assert-That ($placed.Count -gt 0) 'no wait has the call stack of who ended it'
    $threads = @($ended | Where-Object { -not $_.dpc })
    "$($waits.wakings) events, $($ended.Count) functions, $($threads.Count) of them of threads"
}
$BusyFile = Join-Path $Log 'busy.rec'
Invoke-Step 'tracing samples one process, and nothing is missing' {
    $source = Join-Path $PSScriptRoot 'windows.cs'
    $busy = Start-Process -WindowStyle Hidden -PassThru powershell.exe ('-NoProfile -Command "Add-Type -TypeDefinition (Get-Content -Raw ''{0}''); [Halprof.Busy]::Run(60)"' -f $source)
    try {
        # The compiler of C# runs first.
        Start-Sleep -Seconds 10
        Assert-That (-not $busy.HasExited) 'the program that was to be sampled ended by itself'
        $answer = Get-Answer 'etw-busy-process' "--machine etw record -e Timer -p $($busy.Id) -d 3 -o `"$BusyFile`""
    } finally {
        $busy.Kill()
    }
    Assert-That ($answer.samples -gt 1000) "$($answer.samples) samples in 3 s of a program that is busy"
    $report = Get-Answer 'etw-busy-report' "report `"$BusyFile`""
    Assert-Whole 'busy.rec' $report
    $others = @($report.by_process | Where-Object { $_.process -ne $busy.Id })
    Assert-That ($others.Count -eq 0) "$($others.Count) other processes are in it"
    "$($answer.samples) samples of process $($busy.Id) alone"
}
# This step has not run yet. Only a file that Windows wrote, such as its branches.etl, can tell what the third
# field of an entry means.
Invoke-Step 'tracing records branches' {
    $source = $Windows | Where-Object { $_.Name -match '^BranchInstruction' } | Select-Object -First 1
    if ($null -eq $source) {
        Skip-Step 'Windows lists no source of branches here'
    }
    $event = $source.Name
    $file = Join-Path $Log 'branches.etl'
    try {
        $answer = Get-Answer 'etw-branches' "--machine etw record --branches=user -e ${event}:1000003 -o `"$file`" -- $Loop" 300
    } catch {
        if ($_.Exception.Message -match 'no branch records here.*?(Win32 error \d+)') {
            # Without them everything else is recorded.
            $plain = Get-Answer 'etw-without-branches' "--machine etw record -e ${event}:1000003 -d 1 -o `"$file`""
            Assert-That ($plain.samples -gt 0) 'no sample without branches either'
            Skip-Step "no branch records here: $($Matches[1])"
        }
        throw
    }
    Assert-That ($answer.branches.records -gt 0) 'no sample has a branch record'
    $edges = Get-Answer 'etw-branches-edges' "report `"$file`" --by edge,module"
    $records = $edges.records
    # Code leads from each record to the next newer one. In the wrong order, many of them would not.
    Assert-That (4 * $records.foreign -lt $records.records) "$($records.foreign) of $($records.records) records do not lead to the next"
    Assert-That (4 * $records.dropped.without_sample -lt $answer.samples) "$($records.dropped.without_sample) events are of no sample"
    "$($records.records) records, at most $($edges.depth) in each of $($records.samples) samples; left out: $($records.dropped.without_sample) events of no sample, $($records.dropped.empty) entries of zeros, $($records.dropped.no_branches) that no branch made, $($records.unresolved) in no module, $($records.foreign) foreign. Please send branches.etl"
}
function Skip-WithoutBusy {
    if (-not (Test-Path $BusyFile)) {
        Skip-Step 'there is no recording of a busy process'
    }
}
Invoke-Step 'report names functions of Windows' {
    Skip-WithoutBusy
    $rows = Get-Row 'etw-busy-names' "report --by module,symbol --rows 0 `"$BusyFile`""
    $system = @($rows | Where-Object { $_.module -match '^(kernelbase|kernel32|ntdll)\.dll$' })
    Assert-That ($system.Count -gt 0) 'no sample is in a library of Windows: images were not joined'
    $named = @($system | Where-Object { $_.symbol })
    Assert-That ($named.Count -gt 0) ('none of these has a name: ' + (($system | ForEach-Object { $_.module } | Sort-Object -Unique) -join ', '))
    "$(@($named | ForEach-Object { "$($_.module) $($_.symbol)" } | Select-Object -First 3) -join ', ')"
}
Invoke-Step 'report names methods of .NET' {
    Skip-WithoutBusy
    $rows = Get-Row 'etw-busy-methods' "report --by symbol --rows 0 `"$BusyFile`""
    $method = @($rows | Where-Object { $_.symbol -match 'ManagedLoop' })
    if ($method.Count -eq 0 -and -not (Test-Path "$env:SystemRoot\Microsoft.NET\Framework64\v4.0.30319\clr.dll")) {
        Skip-Step 'there is no .NET Framework 4 here'
    }
    Assert-That ($method.Count -eq 1) 'Halprof.Busy.ManagedLoop, which ran a third of the time, has no name'
    "$($method[0].symbol): $($method[0].samples) samples"
}
Invoke-Step 'inlined functions have the samples of those that exist' {
    Skip-WithoutBusy
    $sums = foreach ($key in 'symbol', 'inline') {
        Get-Sum @(Get-Row "etw-busy-$key" "report --by $key --rows 0 `"$BusyFile`"" | ForEach-Object { $_.samples })
    }
    Assert-That ($sums[0] -gt 0 -and $sums[0] -eq $sums[1]) "$($sums[0]) samples by symbol, $($sums[1]) by inline"
    "$($sums[0]) samples by symbol and by inline"
}
Invoke-Step 'annotate opens a module' {
    Skip-WithoutBusy
    $answer = Get-Answer 'etw-busy-annotate' "annotate --module kernelbase.dll `"$BusyFile`""
    Assert-That (@($answer.instructions).Count -gt 0) "$($answer.image) has no instructions"
    "$($answer.symbol) of $($answer.image): $(@($answer.instructions).Count) instructions"
}
# This prompt is elevated, so the page is written and not opened.
Invoke-Step 'report writes a page' {
    Skip-WithoutBusy
    $answer = Get-Answer 'etw-busy-page' "report --open `"$BusyFile`""
    Assert-That ([bool](Test-Path $answer.page)) "there is no $($answer.page)"
    "$($answer.page): $((Get-Item $answer.page).Length) bytes"
}
Invoke-Step 'the last samples have their process' {
    $file = Join-Path $Log 'last.rec'
    $answer = Get-Answer 'etw-last' "--machine etw record -e Timer -o `"$file`" -- $Loop" 300
    Assert-That ($answer.samples -gt 0) 'no sample'
    $report = Get-Answer 'etw-last-report' "report `"$file`""
    Assert-Whole 'last.rec' $report
    $nobody = @($report.by_process | Where-Object { $null -eq $_.process })
    $without = Get-Sum @($nobody | ForEach-Object { $_.samples })
    Assert-That ($without -eq 0) "$without of $($answer.samples) samples have no process"
    "all of $($answer.samples), of $(@($report.by_process).Count) processes"
}
Invoke-Step 'tracing ends with the process that it samples' {
    $file = Join-Path $Log 'ended.rec'
    $short = Start-Process -WindowStyle Hidden -PassThru powershell.exe '-NoProfile -Command "$end = (Get-Date).AddSeconds(6); while ((Get-Date) -lt $end) { }"'
    $client = Start-Tool 'etw-ended' "--json --machine etw record -e Timer -p $($short.Id) -o `"$file`""
    $ran = Wait-Tool 'etw-ended' $client 60
    Assert-That ($ran.Status -eq 0) "it ended with $($ran.Status): $($ran.Text) $($ran.Said)"
    "$(($ran.Text | ConvertFrom-Json).samples) samples until it ended"
}
Invoke-Step 'buffers are written when they are full' {
    # Ten samples a second on each processor fill a buffer of 64 KB in minutes. What is there at the
    # start and at the end is in both files.
    $short = Join-Path $Log 'one-second.etl'
    $file = Join-Path $Log 'many-seconds.etl'
    [void](Get-Answer 'etw-one-second' "--machine etw record -e Timer:1000000 -d 1 -o `"$short`"")
    [void](Get-Answer 'etw-many-seconds' "--machine etw record -e Timer:1000000 -d 21 -o `"$file`"")
    $more = [long](Get-Item $file).Length - [long](Get-Item $short).Length
    $flushed = 20 * [Environment]::ProcessorCount * 64KB
    Assert-That ($more -lt $flushed / 2) "$more bytes more in 20 s; a buffer of each processor in each second would be $flushed"
    "$more bytes more in 20 s"
}
Invoke-Step 'rights to trace without elevation' {
    if (-not $TracingRights) {
        Skip-Step 'only with -TracingRights, which gives this account rights and takes them back'
    }
    $user = [Security.Principal.WindowsIdentity]::GetCurrent().Name
    $given = Get-Answer 'tracing-install' "install --tracing --user `"$user`""
    $before = @($given.rights | Where-Object { -not $_.changed })
    if ($before.Count -ne 0) {
        Skip-Step "$user had before: $(@($before | ForEach-Object { $_.right }) -join ', '); what is new stays: uninstall --tracing takes it all"
    }
    $shown = (Get-Answer 'tracing-doctor' '--machine etw doctor').checks | Where-Object { $_.name -eq 'tracing-rights' }
    $taken = Get-Answer 'tracing-uninstall' "uninstall --tracing --user `"$user`""
    Assert-That (@($taken.rights | Where-Object { -not $_.changed }).Count -eq 0) 'not everything that was given was taken back'
    Assert-That (([regex]::Matches($shown.result, ': yes')).Count -eq 4) "doctor says: $($shown.result)"
    "given, shown and taken back: $user"
}
Invoke-Step 'tracing counts a program' {
    Skip-WithoutCounter
    $answer = Get-Answer 'etw-stat' "--machine etw stat -e TotalIssues -- $Loop" 300
    $script:Traced = [decimal]$answer.counts[0].value
    Assert-That ($Traced -gt 0) 'it counted nothing'
    "$Traced instructions of all programs"
}
# This step has not run yet.
Invoke-Step 'tracing counts known instructions' {
    Skip-WithoutCounter
    Assert-Proof 'tracing' (Get-Answer 'etw-prove' '--machine etw doctor --prove' 300).proof
}
Invoke-Step 'tracing counts threads' {
    Skip-WithoutCounter
    $answer = Get-Answer 'etw-threads' '--machine etw stat --by thread -d 2' 300
    $complete = @($answer.by_thread | Where-Object { $_.complete })
    Assert-That ($complete.Count -gt 0) 'no thread is complete'
    "$(@($answer.by_thread).Count) rows, $($complete.Count) complete"
}
# This step has not run yet. From build 22621 on, and on Server 2022, the live session hands over whole buffers,
# before that single events.
Invoke-Step 'tracing counts live what it counts in a file' {
    Skip-WithoutCounter
    Assert-That ($Traced -gt 0) 'the same program has no count from a file'
    $answer = Get-Answer 'etw-live-stat' "--machine etw stat -e TotalIssues -I 200 -- $Loop" 300
    $ratio = [decimal]$answer.counts[0].value / $Traced
    Assert-That ($ratio -gt 0.9 -and $ratio -lt 1.1) "$ratio of what a file has"
    "build $([Environment]::OSVersion.Version.Build): $ratio of what a file has; events lost: $($answer.trace.lost_events)"
}
# This step has not run yet.
Invoke-Step 'tracing counts threads by their names' {
    Skip-WithoutCounter
    $busy = Start-Process -WindowStyle Hidden -PassThru powershell.exe $Named
    try {
        Start-Sleep -Seconds 3
        $answer = Get-Answer 'etw-thread-names' '--machine etw stat --by thread -d 2' 300
    } finally {
        $busy.Kill()
    }
    $own = @($answer.by_thread | Where-Object { $_.thread_name -eq 'halprof worker' })
    Assert-That ($own.Count -gt 0) 'no thread is called halprof worker'
    "thread $($own[0].thread) of $($own[0].process)"
}
Invoke-Step 'a program counts a region without the driver' {
    Skip-WithoutCounter
    $library = Join-Path $Package 'c\halprof_c.dll'
    if (-not (Test-Path $library)) {
        Skip-Step 'halprof_c.dll is not in the package'
    }
    [Halprof.Regions]::Load($library)
    $short = [Halprof.Regions]::Instructions(1000000)
    $long = [Halprof.Regions]::Instructions(10000000)
    $ratio = ($long.Count / [Math]::Max(1, $short.Count)).ToString('0.00')
    Assert-That ($long.Method -eq 4) "it counted by method $($long.Method), not by tracing"
    Assert-That ($long.Gaps -eq 0) 'counts were missed'
    Assert-That ($long.Count -gt 8 * $short.Count -and $long.Count -lt 12 * $short.Count) "ten times the work has $ratio times the instructions"
    "$($short.Count) and $($long.Count) instructions, $ratio times; spread $($long.Spread), $($long.Milliseconds) ms for a reading"
}
Invoke-Step 'tracing ends with its process' {
    $file = Join-Path $Log 'killed.rec'
    $client = Start-Tool 'etw-killed' "--machine etw record -e Timer -d 600 -o `"$file`""
    Start-Sleep -Seconds 2
    Assert-That (-not $client.HasExited) 'it ended by itself: see etw-killed.err in the log'
    $ran = Invoke-Tool 'etw-busy' "--json --machine etw record -e Timer -d 1 -o `"$file`""
    Assert-That ($ran.Status -eq 4 -and $ran.Text -match '"busy"') "a second session ended with $($ran.Status): $($ran.Text)"
    $client.Kill()
    $client.WaitForExit()
    [void](Get-Answer 'etw-after' "--machine etw record -e Timer -d 1 -o `"$file`"")
    & "$env:SystemRoot\System32\logman.exe" query halprof-etw -ets | Out-Null
    Assert-That ($LASTEXITCODE -ne 0) 'the session goes on'
    $left = @(Get-ChildItem "$env:SystemRoot\System32\LogFiles\halprof" -ErrorAction SilentlyContinue)
    Assert-That ($left.Count -eq 0) ('files are left: ' + ($left -join ', '))
    'a session was named as busy; the next one undid what the killed one left'
}
Invoke-Step 'intervals after tracing' {
    $now = Get-Interval
    Assert-That ($now -eq $Intervals) "they are $now, and were $Intervals"
    'as they were'
}
if ($WithoutDriver) {
    Close-Run ([int](@($Results | Where-Object { $_.State -eq 'FAIL' }).Count -ne 0))
}

# --- install --------------------------------------------------------------------------------------

$certificate = New-Object Security.Cryptography.X509Certificates.X509Certificate2(
    (Get-ChildItem (Join-Path $Package '*.cer')).FullName)
function Edit-Certificate([string]$Change) {
    foreach ($name in 'Root', 'TrustedPublisher') {
        $store = New-Object Security.Cryptography.X509Certificates.X509Store($name, 'LocalMachine')
        $store.Open('ReadWrite')
        try {
            $store.$Change($certificate)
        } finally {
            $store.Close()
        }
    }
}

Invoke-Step 'certificate' {
    Edit-Certificate 'Add'
    "$($certificate.Subject), $($certificate.Thumbprint), in Root and TrustedPublisher of this computer"
}
Invoke-Step 'install' {
    $answer = Get-Answer 'install' "install `"$Inf`"" 300
    Assert-That (-not $answer.restart) 'Windows asks for a restart: restart and run this again'
    "$($answer.device) by $($answer.package)"
}
Invoke-Step 'install again' {
    $answer = Get-Answer 'install-again' "install `"$Inf`"" 300
    Assert-That (-not $answer.created) 'it made a second device'
    'the same device'
}
Invoke-Step 'stop and start' {
    $stopped = Get-Answer 'stop' 'stop' 120
    Assert-That $stopped.changed 'there was nothing to stop'
    Assert-That (-not $stopped.restart) 'Windows asks for a restart'
    Assert-That (-not (Get-Answer 'stop-again' 'stop' 120).changed) 'it was stopped a second time'
    $ran = Invoke-Tool 'stopped-info' '--json info'
    Assert-That ($ran.Status -eq 3) "a driver that is stopped answers: $($ran.Text)"
    $started = Get-Answer 'start' 'start' 120
    Assert-That ($started.changed -and -not $started.restart) 'it was not started, or Windows asks for a restart'
    Assert-That (-not (Get-Answer 'start-again' 'start' 120).changed) 'it was started a second time'
    [void](Get-Answer 'started-info' 'info')
    'without a restart'
}
Invoke-Step 'Driver Verifier' {
    if (-not (Test-Verifier)) {
        Skip-Step 'off; -Verifier turns it on'
    }
    'watches halprof.sys'
}
Invoke-Step 'only administrators open it' {
    # The same account without its administrator rights: runas makes such a process of this one.
    $file = Join-Path $Log 'unelevated.out'
    $batch = Join-Path $Log 'unelevated.cmd'
    "@`"$Tool`" --json info > `"$file.part`"`r`n@move `"$file.part`" `"$file`"" | Set-Content -Encoding Default $batch
    & "$env:SystemRoot\System32\runas.exe" /trustlevel:0x20000 "cmd.exe /c $batch" | Out-Null
    for ($second = 0; $second -lt 20 -and -not (Test-Path $file); $second++) {
        Start-Sleep -Seconds 1
    }
    if (-not (Test-Path $file)) {
        Skip-Step 'runas /trustlevel started nothing here; try `halprof info` from a prompt that is not elevated'
    }
    $answer = Get-Content -Raw -Encoding UTF8 $file | ConvertFrom-Json
    Assert-That ($answer.schema -eq 'halprof/error/2') 'a process without administrator rights opened the driver'
    Assert-That ($answer.error.hint -match 'elevated') "refused, but for another reason: $($answer.error.message)"
    $answer.error.message
}

# --- measure --------------------------------------------------------------------------------------

$Ready = $false
$Before = @{}
Invoke-Step 'doctor' {
    $ran = Invoke-Tool 'doctor' '--json doctor'
    $answer = $ran.Text | ConvertFrom-Json
    Assert-That ($answer.schema -eq 'halprof/doctor/2') $ran.Text
    $told = @($answer.checks | Where-Object { $_.state -ne 'ok' } | ForEach-Object { "$($_.name): $($_.result)" })
    $script:Ready = $answer.ready
    Assert-That ($ran.Status -ne 3) ($told -join '; ')
    if (-not $answer.ready) {
        Skip-Step ('nothing can be counted here: ' + ($told -join '; '))
    }
    @('ready to measure') + $told
}
Invoke-Step 'known instructions are counted' {
    Assert-Ready
    Assert-Proof 'driver' (Get-Answer 'doctor-prove' 'doctor --prove' 300).proof
}
Invoke-Step 'registers before' {
    Assert-Ready
    $script:Before = Get-ControlRegister 'registers-before'
    "$($Before.Count) control registers"
}
Invoke-Step 'sources against Windows'' own list' {
    $ours = @{}
    foreach ($source in (Get-Answer 'list' 'list --all').sources) {
        if ($source.hal) {
            $ours[[long]$source.id] = $source
        }
    }
    $wrong = @()
    $unknown = @()
    foreach ($theirs in $Windows) {
        $source = $ours[[long]$theirs.Id]
        if ($null -eq $source) {
            $unknown += "$($theirs.Id) $($theirs.Name)"
            continue
        }
        $here = @($source.name, $source.interval.min, $source.interval.max, $source.interval.default) -join ' '
        $there = @($theirs.Name, $theirs.MinInterval, $theirs.MaxInterval, $theirs.Interval) -join ' '
        Write-Verbose ('{0,4}  {1}  |  {2}' -f $theirs.Id, $here, $there)
        if ($here -ne $there) {
            $wrong += "id $($theirs.Id): halprof has $here, Windows $there"
        }
        if (-not $source.supported) {
            $wrong += "id $($theirs.Id) $($theirs.Name): Windows offers it, halprof says not supported"
        }
    }
    $listed = @($Windows | ForEach-Object { [long]$_.Id })
    foreach ($id in ($ours.Keys | Sort-Object)) {
        if ($ours[$id].supported -and $listed -notcontains $id) {
            $wrong += "id $id $($ours[$id].name): Windows does not offer it"
        }
    }
    Assert-That ($wrong.Count -eq 0) (($wrong -join '; ') + '. The last number is the interval now: a tool may have changed it since the start of Windows')
    "$($Windows.Count - $unknown.Count) rows equal in id, name and intervals"
    if ($unknown.Count -ne 0) {
        "newer than halprof's table: $($unknown -join ', ')"
    }
}

Invoke-Step 'stat' {
    Assert-Ready
    $answer = Get-Answer 'stat' 'stat -d 1'
    $zero = @($answer.counts | Where-Object { [decimal]$_.value -eq 0 } | ForEach-Object { $_.source })
    Assert-That ($zero.Count -lt @($answer.counts).Count) 'every count is 0'
    @($answer.counts | ForEach-Object { "$($_.source) $($_.value)" })
}
Invoke-Step 'stat of a program' {
    Assert-Ready
    $ran = Invoke-Tool 'stat-program' 'stat -- cmd.exe /c exit 7'
    Assert-That ($ran.Status -eq 7) "halprof ended with $($ran.Status), the program with 7: $($ran.Said)"
    'ends with the program''s own status'
}
# These steps have not run yet. Two runs of one program differ by what is not known of any Windows: the
# figures that they tell are worth more than the steps.
Invoke-Step 'programs in turns' {
    Assert-Ready
    $command = "stat -e TotalIssues:u,TotalCycles:u -r 6 --against $env:ComSpec -- $env:ComSpec /c exit 0"
    $answer = Get-Answer 'against' $command 300
    $hash = (Get-FileHash -Algorithm SHA256 $env:ComSpec).Hash
    Assert-That ($answer.against.pairs -eq 6) "$($answer.against.pairs) of 6 pairs are complete"
    Assert-That ($answer.against.before.sha256 -eq $hash) "the file's SHA-256 is $hash, not $($answer.against.before.sha256)"
    ($answer.diff | ForEach-Object { "$($_.metric) $($_.ratio) +-$($_.error) $($_.verdict)" }) -join '; '
}
Invoke-Step 'a program that fails has no verdict' {
    Assert-Ready
    $ran = Invoke-Tool 'against-fails' "--json stat -r 3 --against $env:ComSpec -- $env:ComSpec /c exit 3" 300
    Assert-That ($ran.Status -eq 3) "the status is $($ran.Status), not the program's 3"
    Assert-That ($ran.Text -notmatch '"verdict"') 'there is a verdict'
    'its status, and no verdict'
}
Invoke-Step 'simulate steps what a function of a DLL calls' {
    $command = "simulate --range ntdll.dll!RtlAllocateHeap --calls --machine skylake -- $env:ComSpec /c exit 0"
    $answer = Get-Answer 'simulate-calls' $command 300
    Assert-That ($answer.module -eq 'ntdll.dll' -and $answer.entries -gt 0) "it was entered $($answer.entries) times in $($answer.module)"
    "$($answer.instructions) instructions in $($answer.functions.Count) functions"
}
Invoke-Step 'ETW samples the CPU while halprof counts' {
    Assert-Ready
    if ($CpuBefore -eq 0) {
        Skip-Step 'it did not before'
    }
    # Whoever comes second may be refused: which of the two it is, no document says.
    $client = Start-Tool 'stat-beside-etw' 'stat -d 6'
    Start-Sleep -Seconds 2
    try {
        $during = [Halprof.Etw]::SampleCpu(2000, $Session)
    } catch {
        [void](Wait-Tool 'stat-beside-etw' $client 60)
        Skip-Step "Windows refuses CPU samples while halprof counts: $($_.Exception.Message)"
    }
    $ran = Wait-Tool 'stat-beside-etw' $client 60
    Assert-That ($ran.Status -eq 0) "the measurement ended with $($ran.Status): $($ran.Said)"
    Assert-That ($during -ge $CpuBefore / 2) "$during samples in 2 s while halprof counts, $CpuBefore before: tell users (docs/windows.md)"
    "$during samples in 2 s, $CpuBefore before"
}
Invoke-Step 'record' {
    Assert-Ready
    $file = Join-Path $Log 'halprof.rec'
    $source = if ($Windows | Where-Object { $_.Name -eq 'TotalCycles' }) { 'TotalCycles' } else { 'TotalIssues' }
    $spin = Start-Process -WindowStyle Hidden -PassThru powershell.exe '-NoProfile -Command "while ($true) { }"'
    try {
        $answer = Get-Answer 'record' "record -e ${source}:1000000 -d 2 -o `"$file`""
        $counted = Get-Answer 'record-counted' "stat -e $source -d 2"
    } finally {
        $spin.Kill()
    }
    $lost = Get-Sum @($answer.lost.PSObject.Properties | ForEach-Object { $_.Value })
    Assert-That ([decimal]$answer.generated -eq [decimal]$answer.samples + $lost) "generated $($answer.generated) is not samples $($answer.samples) + lost $lost"
    Assert-That $answer.notifications "processes and images were not traced: $($answer.notifications_error)"
    # The same load counted, right after: half of what its count makes at this period must come, so
    # that interrupts which end after the first do not pass.
    $expected = (Get-Sum @($counted.counts | ForEach-Object { $_.value })) / 1000000
    Assert-That ($answer.samples -gt 0 -and $answer.samples -ge $expected / 2) "$($answer.samples) samples of $source where its count makes $expected"
    $report = Get-Answer 'report' "report `"$file`""
    Assert-That ($report.samples -eq $answer.samples) "report has $($report.samples) samples, record had $($answer.samples)"
    "$($answer.samples) samples of $source, $lost lost"
}
Invoke-Step 'record names threads' {
    Assert-Ready
    Assert-ThreadName 'threads' 'record'
}
Invoke-Step 'record for a metric' {
    Assert-Ready
    $file = Join-Path $Log 'metric.rec'
    $spin = Start-Process -WindowStyle Hidden -PassThru powershell.exe '-NoProfile -Command "while ($true) { }"'
    try {
        $answer = Get-Answer 'record-metric' "record -M ipc -d 3 -o `"$file`""
        $counted = Get-Answer 'count-metric' 'stat -M ipc -d 3'
    } finally {
        $spin.Kill()
    }
    Assert-That (@($answer.periods).Count -eq 2) "$(@($answer.periods).Count) sources for a metric of two"
    $report = Get-Answer 'report-metric' "report `"$file`" -M ipc --by process"
    $row = $report.tables[0].parts[0].rows | Where-Object { $_.process -eq $spin.Id } | Select-Object -First 1
    Assert-That ($null -ne $row) 'the program that spins has no row'
    $ipc = $row.metrics[0]
    Assert-That ($ipc.low -le $ipc.value -and $ipc.value -le $ipc.high) "ipc $($ipc.value) from $($ipc.low) to $($ipc.high): $($ipc.reason)"
    # It is nearly all that runs, so the whole has about its ratio.
    $whole = ($counted.derived | Where-Object { $_.metric -eq 'ipc' } | Select-Object -First 1).value
    Assert-That ($ipc.value -gt $whole / 2 -and $ipc.value -lt $whole * 2) "ipc $($ipc.value) by samples, $whole by counts"
    "ipc $($ipc.value) from $($ipc.low) to $($ipc.high); $whole counted"
}
Invoke-Step 'record with branches' {
    Assert-Ready
    $file = Join-Path $Log 'branches.rec'
    $spin = Start-Process -WindowStyle Hidden -PassThru powershell.exe '-NoProfile -Command "while ($true) { }"'
    try {
        $answer = Get-Answer 'branches' "record --branches=8 -e TotalIssues:1000000 -d 2 -o `"$file`""
    } catch {
        if ($_.Exception.Message -match '\((branches-unavailable|branches-taken),') {
            Skip-Step $_.Exception.Message
        }
        throw
    } finally {
        $spin.Kill()
    }
    Assert-That ($answer.samples -gt 0) 'no sample with branches'
    Assert-Clear 'registers-after-branches'
    "$($answer.samples) samples, and the registers of branch recording are equal to before"
}

# Where leaf 0x1C EAX[30] is set, a deep C-state may clear the records. Whether it also clears
# IA32_LBR_CTL, no document says: the session would then end with branches-changed at the first sample
# after an idle stretch. Not yet run on any Windows.
Invoke-Step 'record branches while idle' {
    Assert-Ready
    $file = Join-Path $Log 'branches-idle.rec'
    try {
        $answer = Get-Answer 'branches-idle' "record --branches=8 -e TotalIssues:1000000 -d 20 -o `"$file`""
    } catch {
        if ($_.Exception.Message -match '\((branches-unavailable|branches-taken),') {
            Skip-Step $_.Exception.Message
        }
        throw
    }
    Assert-That (-not $answer.ended) "the session ended: $($answer.ended.code): does a deep C-state clear IA32_LBR_CTL?"
    Assert-Clear 'registers-after-branches-idle'
    $cleared = @($answer.advice | Where-Object { $_.code -eq 'branches-cleared' })
    if ($cleared.Count -gt 0) { $cleared[0].message } else { 'no record was cleared' }
}
# Samples of each processor, by its number, between two moments in seconds; of all where none is given.
function Get-SampleCount([string]$Name, [string]$File, [string]$Between) {
    $counts = @{}
    foreach ($row in (Get-Answer $Name ("report $Between `"$File`"")).by_processor) {
        $counts[[int]$row.processor] = [decimal]$row.samples
    }
    $counts
}
Invoke-Step 'samples until the end, on every processor' {
    Assert-Ready
    $file = Join-Path $Log 'everywhere.rec'
    $source = if ($Windows | Where-Object { $_.Name -eq 'TotalCycles' }) { 'TotalCycles' } else { 'TotalIssues' }
    $processors = @((Get-Answer 'everywhere-info' 'info').processors | ForEach-Object { [int]$_.index })
    # A busy program for each processor: Windows spreads them, over processor groups too.
    $spins = @($processors | ForEach-Object {
        Start-Process -WindowStyle Hidden -PassThru powershell.exe '-NoProfile -Command "while ($true) { }"'
    })
    try {
        [void](Get-Answer 'everywhere' "record -e ${source}:1000000 -d 8 -o `"$file`"")
    } finally {
        $spins | ForEach-Object { $_.Kill() }
    }
    $all = Get-SampleCount 'everywhere-all' $file ''
    $last = Get-SampleCount 'everywhere-last' $file '--time 6-8'
    # The load does not change, so a quarter of the time has about a quarter of the samples. Half of
    # that must come: on a processor whose interrupts have ended none do.
    $silent = @($processors | Where-Object {
        -not $all.ContainsKey($_) -or -not $last.ContainsKey($_) -or $last[$_] -lt $all[$_] / 8
    } | ForEach-Object { "processor $_ has $(0 + $last[$_]) of its $(0 + $all[$_])" })
    Assert-That ($silent.Count -eq 0) ('samples in the last 2 of 8 s: ' + ($silent -join ', '))
    "$(Get-Sum $last.Values) of $(Get-Sum $all.Values) in the last 2 of 8 s, on $($processors.Count) processors"
}
# How often each processor has left its idle state, by its name "group,number". CIM names no counter in
# the language of Windows.
function Get-IdleBreak {
    $counts = @{}
    foreach ($row in Get-CimInstance Win32_PerfRawData_Counters_ProcessorInformation) {
        if (-not $row.PSObject.Properties['IdleBreakEventsPersec']) {
            Skip-Step 'this Windows does not count how often processors leave their idle state'
        }
        if ($row.Name -notmatch '_Total') {
            $counts[$row.Name] = [decimal]$row.IdleBreakEventsPersec
        }
    }
    $counts
}
# The fewest in a second that any processor has: that one is idle.
function Get-FewestIdleBreaks([int]$Seconds) {
    $before = Get-IdleBreak
    Start-Sleep -Seconds $Seconds
    $after = Get-IdleBreak
    $rates = @($before.Keys | Where-Object { $after.ContainsKey($_) } | ForEach-Object {
        ($after[$_] - $before[$_]) / $Seconds
    } | Where-Object { $_ -gt 0 })
    if ($rates.Count -eq 0) {
        Skip-Step 'no processor leaves its idle state, or nobody counts it here'
    }
    [math]::Round(($rates | Measure-Object -Minimum).Minimum, 1)
}
# The polls of a session that samples are DPCs of medium importance, four a second on each processor.
# Whether they wake one that is idle, two sources say differently (docs/windows.md): this measures it.
Invoke-Step 'polls should wake no idle processor' {
    Assert-Ready
    $before = Get-FewestIdleBreaks 20
    # So long a period that hardly any sample comes.
    $file = Join-Path $Log 'idle.rec'
    $client = Start-Tool 'idle' "record -e TotalIssues:1000000000 -d 26 -o `"$file`""
    Start-Sleep -Seconds 3
    $during = Get-FewestIdleBreaks 20
    $ran = Wait-Tool 'idle' $client 60
    Assert-That ($ran.Status -eq 0) "the recording ended with $($ran.Status): $($ran.Said)"
    $after = Get-FewestIdleBreaks 20
    "the idlest processor left its idle state $before times a second before, $during while halprof sampled (4 polls a second), $after after"
}
Invoke-Step 'registers after measuring' {
    Assert-Ready
    Assert-Clear 'registers-after'
    'equal to before'
}

Invoke-Step 'the driver counts what tracing counted' {
    Assert-Ready
    if ($Traced -eq 0) {
        Skip-Step 'tracing counted nothing'
    }
    $answer = Get-Answer 'driver-stat' "--machine driver stat -e TotalIssues -- $Loop" 300
    $count = [decimal]$answer.counts[0].value
    # All programs are counted, and they differ from one run to the next.
    Assert-That ($count -gt $Traced / 2 -and $count -lt $Traced * 2) "$count by the driver, $Traced by tracing"
    "$count by the driver, $Traced by tracing"
}

# --- a client that is killed ----------------------------------------------------------------------

Invoke-Step 'a client is killed' {
    Assert-Ready
    $client = Start-Tool 'killed' 'stat -d 600'
    Start-Sleep -Seconds 2
    Assert-That (-not $client.HasExited) 'the measurement that was to be killed ended by itself: see killed.err in the log'
    $held = (Get-Answer 'held' 'info').holder
    Assert-That ($null -ne $held -and $held.process -eq $client.Id) 'info does not name the client that holds the counters'
    $ran = Invoke-Tool 'stop-busy' '--json stop'
    Assert-That ($ran.Status -eq 4 -and $ran.Text -match '"busy"') "stop of a driver in use ended with $($ran.Status): $($ran.Text)"
    $client.Kill()
    $client.WaitForExit()
    [void](Get-Answer 'after-kill' 'stat -d 1')
    Assert-That ($null -eq (Get-Answer 'free' 'info').holder) 'somebody still holds the counters'
    Assert-Clear 'registers-after-kill'
    'the next measurement started at once, and the registers are equal to before'
}

# --- a register that is not there -----------------------------------------------------------------

# No register that CPUID promises is missing on an ordinary machine, and no request names one: a
# breakpoint in the driver's only function with RDMSR and an exception handler puts another number in.
Invoke-Step 'a register that is not there' {
    Assert-Ready
    if (-not $AbsentRegister) {
        Skip-Step 'only with -AbsentRegister, which needs a kernel debugger'
    }
    Write-Host 'In the kernel debugger: bp halprof!halprof_rdmsr "r ecx=0xffffffff; gc", then g. If it stops at the exception, gn.'
    [void](Read-Host 'Then press Enter here')
    $ran = Invoke-Tool 'absent-register' '--json stat -d 1' 600
    Write-Host 'In the kernel debugger: bc *, then g.'
    [void](Read-Host 'Then press Enter here')
    $answer = $ran.Text | ConvertFrom-Json
    Assert-That ($answer.schema -eq 'halprof/error/2') "the measurement ended with $($ran.Status) and no error: was the breakpoint set?"
    Assert-That ($answer.error.code -eq 'counters-dead' -and $answer.error.message -match '0xffffffff') "$($answer.error.code): $($answer.error.message)"
    [void](Get-Answer 'after-absent-register' 'stat -d 1')
    Assert-Clear 'registers-after-absent-register'
    'START refused it, and the next measurement works'
}

# --- sleep ----------------------------------------------------------------------------------------

Invoke-Step 'sleep and wake' {
    Assert-Ready
    if ($NoSleep) {
        Skip-Step '-NoSleep'
    }
    if (-not [Halprof.Computer]::HasS3()) {
        Skip-Step 'this computer has no S3 sleep: most virtual machines and all with Modern Standby'
    }
    $client = Start-Tool 'sleep' '--json stat -d 60'
    Start-Sleep -Seconds 2
    Write-Host 'Sleeping for 30 s. Where the clock may not wake this computer, press its power button.'
    [Halprof.Computer]::Sleep(30)
    Start-Sleep -Seconds 5
    $ran = Wait-Tool 'sleep' $client 120
    Assert-That ($ran.Status -eq 0) "the measurement ended with $($ran.Status): $($ran.Text) $($ran.Said)"
    [void](Get-Answer 'after-sleep' 'stat -d 1')
    Assert-Clear 'registers-after-sleep'
    'a measurement went through it, the next one works'
}

# --- remove ---------------------------------------------------------------------------------------

if ($Keep) {
    Write-Host 'The driver stays: halprof uninstall removes it.'
} else {
    Invoke-Step 'uninstall' {
        $answer = Get-Answer 'uninstall' 'uninstall' 300
        Assert-That (-not $answer.restart) 'Windows asks for a restart to finish'
        @($answer.devices) + @($answer.packages)
    }
    Invoke-Step 'nothing is left' {
        $left = @(Get-Installed)
        Assert-That ($left.Count -eq 0) ($left -join ', ')
        $answer = Get-Answer 'uninstall-again' 'uninstall' 300
        Assert-That (@($answer.devices).Count -eq 0 -and @($answer.packages).Count -eq 0) 'uninstall found more the second time'
        'no device, no package, no service'
    }
    Invoke-Step 'certificate removed' {
        Edit-Certificate 'Remove'
        'from Root and TrustedPublisher'
    }
}
Invoke-Step 'ETW samples a counter after halprof' {
    if ($EtwBefore -eq 0) {
        Skip-Step 'it did not before'
    }
    $after = [Halprof.Etw]::Sample($Sampled.Id, 2000, $Session)
    Assert-That ($after -ge $EtwBefore / 2) "$after samples of $($Sampled.Name) in 2 s; $EtwBefore before"
    "$after samples of $($Sampled.Name) in 2 s, $EtwBefore before"
}

Invoke-Step 'ETW samples the CPU after halprof' {
    if ($CpuBefore -eq 0) {
        Skip-Step 'it did not before'
    }
    $after = [Halprof.Etw]::SampleCpu(2000, $Session)
    Assert-That ($after -ge $CpuBefore / 2) "$after samples in 2 s, $CpuBefore before"
    "$after samples in 2 s, $CpuBefore before"
}

Close-Run ([int](@($Results | Where-Object { $_.State -eq 'FAIL' }).Count -ne 0))
