# The image's load configuration, and what control-flow guard calls where
# Windows does not watch.
#
# Source: https://learn.microsoft.com/windows/win32/api/winnt/ns-winnt-image_load_config_directory64
# and https://learn.microsoft.com/windows/win32/secbp/pe-metadata

# Windows puts its own functions here if it guards this driver.
        .section .00cfg, "dr"
        .balign 8
        .globl __guard_check_icall_fptr
__guard_check_icall_fptr:
        .quad check_icall_nop
        .globl __guard_dispatch_icall_fptr
__guard_dispatch_icall_fptr:
        .quad dispatch_icall_nop

        .text
        .def check_icall_nop; .scl 3; .type 32; .endef
check_icall_nop:
        retq
        .def dispatch_icall_nop; .scl 3; .type 32; .endef
dispatch_icall_nop:
        jmpq *%rax

# Windows replaces this very value when it loads the driver.
        .data
        .balign 8
        .globl __security_cookie
__security_cookie:
        .quad 0x00002B992DDFA232

        .section .rdata, "dr"
        .balign 8
        .globl _load_config_used
_load_config_used:
        .long   load_config_end - _load_config_used # Size
        .long   0                               # TimeDateStamp
        .short  0, 0                            # MajorVersion, MinorVersion
        .long   0, 0, 0                         # GlobalFlagsClear, GlobalFlagsSet, CriticalSectionDefaultTimeout
        .quad   0, 0, 0, 0, 0, 0                # DeCommitFreeBlockThreshold .. ProcessAffinityMask
        .long   0                               # ProcessHeapFlags
        .short  0, 0                            # CSDVersion, DependentLoadFlags
        .quad   0                               # EditList
        .quad   __security_cookie               # SecurityCookie
        .quad   0, 0                            # SEHandlerTable, SEHandlerCount
        .quad   __guard_check_icall_fptr        # GuardCFCheckFunctionPointer
        .quad   __guard_dispatch_icall_fptr     # GuardCFDispatchFunctionPointer
        .quad   __guard_fids_table              # GuardCFFunctionTable
        .quad   __guard_fids_count              # GuardCFFunctionCount
        .long   __guard_flags                   # GuardFlags
        .short  0, 0                            # CodeIntegrity.Flags, .Catalog
        .long   0, 0                            # CodeIntegrity.CatalogOffset, .Reserved
        .quad   __guard_iat_table               # GuardAddressTakenIatEntryTable
        .quad   __guard_iat_count               # GuardAddressTakenIatEntryCount
        .quad   __guard_longjmp_table           # GuardLongJumpTargetTable
        .quad   __guard_longjmp_count           # GuardLongJumpTargetCount
load_config_end:
