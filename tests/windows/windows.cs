// The functions of Windows that run.ps1 asks, each from Microsoft's published documentation.
// PowerShell 5.1 compiles this with Add-Type: C# 5, .NET Framework 4.
using System;
using System.Collections.Generic;
using System.ComponentModel;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;

namespace Halprof
{
    // One row of TraceProfileSourceListInfo (evntrace.h, PROFILE_SOURCE_INFO), with the interval
    // that TraceSampledProfileIntervalInfo gives for it.
    public sealed class ProfileSource
    {
        public uint Id;
        public string Name;
        public uint MinInterval;
        public uint MaxInterval;
        public uint Interval;
    }

    // A region that was counted without the driver.
    public sealed class Region
    {
        public ulong Count;
        public ulong Gaps;
        public ulong Spread;
        public uint Method;
        public long Milliseconds;
    }

    // What this thread counts by Windows' own tracing, through halprof_c.dll (halprof.h).
    public static class Regions
    {
        [DllImport("kernel32.dll", CharSet = CharSet.Unicode, SetLastError = true)]
        static extern IntPtr LoadLibrary(string path);
        [DllImport("halprof_c.dll", CallingConvention = CallingConvention.Cdecl, CharSet = CharSet.Ansi)]
        static extern int halprof_counts_open(uint abi, string machine, string events, out IntPtr counts);
        [DllImport("halprof_c.dll", CallingConvention = CallingConvention.Cdecl)]
        static extern int halprof_counts_read(IntPtr counts, ulong[] values, UIntPtr length);
        [DllImport("halprof_c.dll", CallingConvention = CallingConvention.Cdecl)]
        static extern int halprof_counts_spread(IntPtr counts, ulong[] values, UIntPtr length);
        [DllImport("halprof_c.dll", CallingConvention = CallingConvention.Cdecl)]
        static extern uint halprof_counts_method(IntPtr counts);
        [DllImport("halprof_c.dll", CallingConvention = CallingConvention.Cdecl)]
        static extern int halprof_counts_close(IntPtr counts);
        [DllImport("halprof_c.dll", CallingConvention = CallingConvention.Cdecl)]
        static extern IntPtr halprof_error();

        // A library that is loaded already is found by its name.
        public static void Load(string path)
        {
            if (LoadLibrary(path) == IntPtr.Zero)
            {
                throw new Win32Exception();
            }
        }

        // The instructions of a loop with so many turns, and the last reading's time.
        public static Region Instructions(int turns)
        {
            IntPtr counts;
            Check(halprof_counts_open(1, "etw", "instructions", out counts));
            try
            {
                var before = new ulong[2];
                var after = new ulong[2];
                var spread = new ulong[1];
                Check(halprof_counts_read(counts, before, (UIntPtr)2));
                Loop(turns);
                var clock = System.Diagnostics.Stopwatch.StartNew();
                Check(halprof_counts_read(counts, after, (UIntPtr)2));
                clock.Stop();
                Check(halprof_counts_spread(counts, spread, (UIntPtr)1));
                var region = new Region();
                region.Count = after[0] - before[0];
                region.Gaps = after[1] - before[1];
                region.Spread = spread[0];
                region.Method = halprof_counts_method(counts);
                region.Milliseconds = clock.ElapsedMilliseconds;
                return region;
            }
            finally
            {
                halprof_counts_close(counts);
            }
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void Loop(int turns)
        {
            for (int turn = 0; turn < turns; turn++)
            {
                System.Threading.Thread.VolatileRead(ref loops);
            }
        }

        static int loops;

        static void Check(int answer)
        {
            if (answer != 0)
            {
                throw new InvalidOperationException(Marshal.PtrToStringAnsi(halprof_error()));
            }
        }
    }

    // What Windows samples with: the list of TraceQueryInformation, and a session of our own.
    public static class Etw
    {
        const int TraceSystemTraceEnableFlagsInfo = 4;
        const int TraceSampledProfileIntervalInfo = 5;
        const int TraceProfileSourceConfigInfo = 6;
        const int TraceProfileSourceListInfo = 7;

        [DllImport("advapi32.dll")]
        static extern uint TraceQueryInformation(ulong session, int what, IntPtr buffer, uint length, out uint returned);
        [DllImport("advapi32.dll")]
        static extern uint TraceSetInformation(ulong session, int what, IntPtr buffer, uint length);
        [DllImport("advapi32.dll", EntryPoint = "StartTraceW", CharSet = CharSet.Unicode)]
        static extern uint StartTrace(out ulong session, string name, IntPtr properties);
        [DllImport("advapi32.dll", EntryPoint = "ControlTraceW", CharSet = CharSet.Unicode)]
        static extern uint ControlTrace(ulong session, string name, IntPtr properties, uint control);
        [DllImport("advapi32.dll", EntryPoint = "OpenTraceW", SetLastError = true)]
        static extern ulong OpenTrace(IntPtr logfile);
        [DllImport("advapi32.dll")]
        static extern uint ProcessTrace(ulong[] traces, uint count, IntPtr start, IntPtr end);
        [DllImport("advapi32.dll")]
        static extern uint CloseTrace(ulong trace);

        // The profile sources that Windows itself offers, in its own order.
        public static ProfileSource[] Sources()
        {
            for (int length = 0x10000; length <= 0x400000; length *= 4)
            {
                IntPtr buffer = Marshal.AllocHGlobal(length);
                try
                {
                    uint returned;
                    uint error = TraceQueryInformation(0, TraceProfileSourceListInfo, buffer, (uint)length, out returned);
                    if (error == 0)
                    {
                        return Rows(buffer, returned);
                    }
                    if (error != 24 && error != 122 && error != 234) // BAD_LENGTH, INSUFFICIENT_BUFFER, MORE_DATA
                    {
                        throw new Win32Exception((int)error);
                    }
                }
                finally
                {
                    Marshal.FreeHGlobal(buffer);
                }
            }
            throw new InvalidOperationException("the list of profile sources is longer than 4 MiB");
        }

        // NextEntryOffset 0, Source 4, MinInterval 8, MaxInterval 0xC, Reserved 0x10, Description 0x18.
        static ProfileSource[] Rows(IntPtr buffer, uint length)
        {
            var rows = new List<ProfileSource>();
            int at = 0;
            while (at + 0x18 <= length)
            {
                IntPtr row = IntPtr.Add(buffer, at);
                int next = Marshal.ReadInt32(row, 0);
                var source = new ProfileSource();
                source.Id = (uint)Marshal.ReadInt32(row, 4);
                source.MinInterval = (uint)Marshal.ReadInt32(row, 8);
                source.MaxInterval = (uint)Marshal.ReadInt32(row, 0xC);
                source.Name = Marshal.PtrToStringUni(IntPtr.Add(row, 0x18));
                source.Interval = Interval(source.Id);
                rows.Add(source);
                if (next <= 0)
                {
                    break;
                }
                at += next;
            }
            return rows.ToArray();
        }

        // TRACE_PROFILE_INTERVAL: Source 0, Interval 4. 0 where Windows refuses to tell.
        static uint Interval(uint source)
        {
            IntPtr buffer = Marshal.AllocHGlobal(8);
            try
            {
                Marshal.WriteInt32(buffer, 0, (int)source);
                Marshal.WriteInt32(buffer, 4, 0);
                uint returned;
                uint error = TraceQueryInformation(0, TraceSampledProfileIntervalInfo, buffer, 8, out returned);
                return error == 0 ? (uint)Marshal.ReadInt32(buffer, 4) : 0;
            }
            finally
            {
                Marshal.FreeHGlobal(buffer);
            }
        }

        // Offsets in EVENT_TRACE_PROPERTIES on x64 (evntrace.h); its size is 120.
        static IntPtr Properties(string file)
        {
            const int size = 120, room = 2048;
            IntPtr properties = Marshal.AllocHGlobal(size + 2 * room);
            for (int at = 0; at < size + 2 * room; at++)
            {
                Marshal.WriteByte(properties, at, 0);
            }
            Marshal.WriteInt32(properties, 0, size + 2 * room);           // Wnode.BufferSize
            Marshal.Copy(Guid.NewGuid().ToByteArray(), 0, IntPtr.Add(properties, 24), 16);
            Marshal.WriteInt32(properties, 40, 1);                        // ClientContext: QPC
            Marshal.WriteInt32(properties, 44, 0x20000);                  // WNODE_FLAG_TRACED_GUID
            Marshal.WriteInt32(properties, 48, 256);                      // BufferSize, KiB
            Marshal.WriteInt32(properties, 52, 64);                       // MinimumBuffers
            Marshal.WriteInt32(properties, 64, 0x02000001);               // SYSTEM_LOGGER_MODE, FILE_MODE_SEQUENTIAL
            Marshal.WriteInt32(properties, 112, size + room);             // LogFileNameOffset
            Marshal.WriteInt32(properties, 116, size);                    // LoggerNameOffset
            byte[] path = Encoding.Unicode.GetBytes(file + "\0");
            Marshal.Copy(path, 0, IntPtr.Add(properties, size + room), Math.Min(path.Length, room));
            return properties;
        }

        // Samples one source with Windows' own profiling; answers how many samples there were.
        public static long Sample(uint source, int milliseconds, string file)
        {
            return Sample(47, milliseconds, file, session =>
            {
                Set(session, TraceProfileSourceConfigInfo, new int[] { (int)source });
                // PERFINFO_GROUPMASK: eight words; PERF_PMC_PROFILE is bit 0x400 of the second.
                Set(session, TraceSystemTraceEnableFlagsInfo, new int[] { 0, 0x400, 0, 0, 0, 0, 0, 0 });
            });
        }

        // Samples the CPU with Windows' own profiling (SampledProfile); answers how many samples.
        public static long SampleCpu(int milliseconds, string file)
        {
            return Sample(46, milliseconds, file, session =>
            {
                // EVENT_TRACE_FLAG_PROFILE (evntrace.h) in the first word.
                Set(session, TraceSystemTraceEnableFlagsInfo, new int[] { 0x01000000, 0, 0, 0, 0, 0, 0, 0 });
            });
        }

        static long Sample(byte opcode, int milliseconds, string file, Action<ulong> enable)
        {
            wanted = opcode;
            const string name = "halprof-test";
            Privilege.Enable("SeSystemProfilePrivilege");
            IntPtr properties = Properties(file);
            try
            {
                ControlTrace(0, name, properties, 1); // one that an earlier run has left
                Marshal.FreeHGlobal(properties);
                properties = Properties(file);
                ulong session;
                Check(StartTrace(out session, name, properties), "StartTrace");
                try
                {
                    enable(session);
                    Spin(milliseconds);
                }
                finally
                {
                    ControlTrace(session, null, properties, 1); // EVENT_TRACE_CONTROL_STOP
                }
            }
            finally
            {
                Marshal.FreeHGlobal(properties);
            }
            return Count(file);
        }

        static void Set(ulong session, int what, int[] words)
        {
            IntPtr buffer = Marshal.AllocHGlobal(4 * words.Length);
            try
            {
                Marshal.Copy(words, 0, buffer, words.Length);
                Check(TraceSetInformation(session, what, buffer, (uint)(4 * words.Length)), "TraceSetInformation " + what);
            }
            finally
            {
                Marshal.FreeHGlobal(buffer);
            }
        }

        static void Spin(int milliseconds)
        {
            DateTime end = DateTime.UtcNow.AddMilliseconds(milliseconds);
            while (DateTime.UtcNow < end)
            {
            }
        }

        [UnmanagedFunctionPointer(CallingConvention.StdCall)]
        delegate void EventRecordCallback(IntPtr record);

        static readonly Guid PerfInfo = new Guid("ce1dbfb4-137e-4da6-87b0-3f59aa102cbc");
        static long samples;
        static byte wanted;

        // EVENT_HEADER: ProviderId at 24, EventDescriptor.Opcode at 45. PerfInfo's opcode 46 is
        // a sample of the CPU, 47 of a performance counter.
        static void OnEvent(IntPtr record)
        {
            var provider = new byte[16];
            Marshal.Copy(IntPtr.Add(record, 24), provider, 0, 16);
            if (new Guid(provider) == PerfInfo && Marshal.ReadByte(record, 45) == wanted)
            {
                samples++;
            }
        }

        // Offsets in EVENT_TRACE_LOGFILEW on x64 (evntrace.h); its size is 448.
        static long Count(string file)
        {
            const int size = 448;
            samples = 0;
            EventRecordCallback callback = OnEvent;
            IntPtr logfile = Marshal.AllocHGlobal(size);
            IntPtr path = Marshal.StringToHGlobalUni(file);
            try
            {
                for (int at = 0; at < size; at++)
                {
                    Marshal.WriteByte(logfile, at, 0);
                }
                Marshal.WriteIntPtr(logfile, 0, path);                    // LogFileName
                Marshal.WriteInt32(logfile, 0x1C, 0x10000000);            // PROCESS_TRACE_MODE_EVENT_RECORD
                Marshal.WriteIntPtr(logfile, 424, Marshal.GetFunctionPointerForDelegate(callback));
                ulong trace = OpenTrace(logfile);
                if (trace == ulong.MaxValue)
                {
                    throw new Win32Exception(Marshal.GetLastWin32Error());
                }
                try
                {
                    Check(ProcessTrace(new ulong[] { trace }, 1, IntPtr.Zero, IntPtr.Zero), "ProcessTrace");
                }
                finally
                {
                    CloseTrace(trace);
                }
            }
            finally
            {
                Marshal.FreeHGlobal(path);
                Marshal.FreeHGlobal(logfile);
                GC.KeepAlive(callback);
            }
            return samples;
        }

        static void Check(uint error, string what)
        {
            if (error != 0)
            {
                throw new InvalidOperationException(what + ": " + new Win32Exception((int)error).Message + " (" + error + ")");
            }
        }
    }

    // A program whose code has names on every Windows: a method of .NET, compiled before anybody
    // traces, and a function that a library of Windows exports.
    public static class Busy
    {
        [DllImport("kernel32.dll")]
        static extern int lstrlenW(IntPtr text);

        public static void Run(int seconds)
        {
            const int Characters = 1 << 20;
            IntPtr text = Marshal.StringToHGlobalUni(new string('a', Characters));
            DateTime end = DateTime.UtcNow.AddSeconds(seconds);
            double sum = 0;
            while (DateTime.UtcNow < end)
            {
                sum += ManagedLoop(1000000);
                NativeLoop(text, 5);
            }
            Marshal.FreeHGlobal(text);
            Console.WriteLine(sum);
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static double ManagedLoop(int rounds)
        {
            double sum = 0;
            for (int round = 1; round <= rounds; round++)
            {
                sum += 1.0 / round;
            }
            return sum;
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static void NativeLoop(IntPtr text, int rounds)
        {
            for (int round = 0; round < rounds; round++)
            {
                lstrlenW(text);
            }
        }
    }

    // A privilege that the account has and that is off until it is asked for.
    public static class Privilege
    {
        [DllImport("kernel32.dll")]
        static extern IntPtr GetCurrentProcess();
        [DllImport("advapi32.dll", SetLastError = true)]
        static extern bool OpenProcessToken(IntPtr process, uint access, out IntPtr token);
        [DllImport("advapi32.dll", SetLastError = true, CharSet = CharSet.Unicode)]
        static extern bool LookupPrivilegeValueW(string system, string name, out long luid);
        [DllImport("advapi32.dll", SetLastError = true)]
        static extern bool AdjustTokenPrivileges(IntPtr token, bool disableAll, ref Token wanted, uint length, IntPtr previous, IntPtr returned);
        [DllImport("kernel32.dll")]
        static extern bool CloseHandle(IntPtr handle);

        // TOKEN_PRIVILEGES with one LUID_AND_ATTRIBUTES.
        [StructLayout(LayoutKind.Sequential, Pack = 4)]
        struct Token
        {
            public uint Count;
            public long Luid;
            public uint Attributes;
        }

        public static void Enable(string name)
        {
            IntPtr token;
            if (!OpenProcessToken(GetCurrentProcess(), 0x28, out token)) // ADJUST_PRIVILEGES, QUERY
            {
                throw new Win32Exception();
            }
            try
            {
                var wanted = new Token();
                wanted.Count = 1;
                wanted.Attributes = 2; // SE_PRIVILEGE_ENABLED
                if (!LookupPrivilegeValueW(null, name, out wanted.Luid)
                    || !AdjustTokenPrivileges(token, false, ref wanted, 0, IntPtr.Zero, IntPtr.Zero)
                    || Marshal.GetLastWin32Error() != 0) // ERROR_NOT_ALL_ASSIGNED
                {
                    throw new Win32Exception();
                }
            }
            finally
            {
                CloseHandle(token);
            }
        }
    }

    // How Windows was started, and how it sleeps.
    public static class Computer
    {
        [DllImport("ntdll.dll")]
        static extern int NtQuerySystemInformation(int what, uint[] buffer, uint length, IntPtr returned);
        [DllImport("powrprof.dll", SetLastError = true)]
        [return: MarshalAs(UnmanagedType.U1)]
        static extern bool GetPwrCapabilities(byte[] capabilities);
        [DllImport("powrprof.dll", SetLastError = true)]
        [return: MarshalAs(UnmanagedType.U1)]
        static extern bool SetSuspendState([MarshalAs(UnmanagedType.U1)] bool hibernate, [MarshalAs(UnmanagedType.U1)] bool force, [MarshalAs(UnmanagedType.U1)] bool noWakeEvents);
        [DllImport("kernel32.dll", SetLastError = true)]
        static extern IntPtr CreateWaitableTimerW(IntPtr attributes, bool manualReset, IntPtr name);
        [DllImport("kernel32.dll", SetLastError = true)]
        static extern bool SetWaitableTimer(IntPtr timer, ref long due, int period, IntPtr routine, IntPtr argument, bool resume);
        [DllImport("kernel32.dll")]
        static extern bool CloseHandle(IntPtr handle);

        // SYSTEM_CODEINTEGRITY_INFORMATION (class 103): Length 0, CodeIntegrityOptions 4.
        public static uint CodeIntegrityOptions()
        {
            var information = new uint[] { 8, 0 };
            int status = NtQuerySystemInformation(103, information, 8, IntPtr.Zero);
            if (status != 0)
            {
                throw new InvalidOperationException("NtQuerySystemInformation: 0x" + status.ToString("X8"));
            }
            return information[1];
        }

        // SYSTEM_POWER_CAPABILITIES: SystemS3 is its sixth byte.
        public static bool HasS3()
        {
            var capabilities = new byte[128];
            return GetPwrCapabilities(capabilities) && capabilities[5] != 0;
        }

        // Sleeps (S3) and asks the clock to wake the computer. Comes back when it is awake.
        public static void Sleep(int seconds)
        {
            Privilege.Enable("SeShutdownPrivilege");
            IntPtr timer = CreateWaitableTimerW(IntPtr.Zero, true, IntPtr.Zero);
            if (timer == IntPtr.Zero)
            {
                throw new Win32Exception();
            }
            try
            {
                long due = -10000000L * seconds;
                if (!SetWaitableTimer(timer, ref due, 0, IntPtr.Zero, IntPtr.Zero, true)
                    || !SetSuspendState(false, false, false))
                {
                    throw new Win32Exception();
                }
            }
            finally
            {
                CloseHandle(timer);
            }
        }
    }
}
