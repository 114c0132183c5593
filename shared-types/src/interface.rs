//! Profile interfaces, the reasons for choosing them, and how overflows are reported.

use zerocopy::FromZeros;

macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $number:tt $text:literal)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum $name {
            $($(#[$doc])* $variant = $number,)*
        }

        impl $name {
            /// Every value.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The value for a number on the wire.
            pub const fn from_wire(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The stable name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}
pub(crate) use wire_enum;

wire_enum! {
    /// A profile interface: which registers are programmed, and which table names the sources.
    #[derive(FromZeros)]
    ProfileInterface {
        /// ProfileTime only.
        Default = 0 "Default"
        /// Intel architectural performance monitoring (CPUID leaf 0x0A).
        Emon = 1 "Emon"
        /// AMD PERF_CTL and PERF_CTR.
        Amd64 = 2 "Amd64"
        /// Pentium: CESR, CTR0, CTR1.
        Pentium = 3 "Pentium"
        /// P6 family: PerfEvtSel0 and 1.
        P6 = 4 "P6"
        /// Pentium 4 and Xeon: counters, CCCRs and ESCRs.
        NetBurst = 5 "NetBurst"
    }
}

wire_enum! {
    /// The rule that chose the interface.
    #[derive(FromZeros)]
    Reason {
        /// GenuineIntel with usable leaf 0x0A.
        Architectural = 0 "architectural-performance-monitoring"
        /// AuthenticAMD.
        AmdVendor = 1 "amd-vendor"
        /// GenuineIntel family 5 models 1 to 8 with the MSR bit.
        PentiumModel = 2 "pentium-model"
        /// GenuineIntel family 6 of a listed model without usable leaf 0x0A.
        P6Model = 3 "p6-model"
        /// GenuineIntel family 15 of a listed model without usable leaf 0x0A.
        NetBurstModel = 4 "netburst-model"
        /// Neither GenuineIntel nor AuthenticAMD.
        OtherVendor = 5 "other-vendor"
        /// The 32-bit HAL's gate: no long mode, and not Intel family 6 or 15.
        Gate32 = 6 "gate-32-bit"
        /// CPUID's highest basic leaf is below 0x0A.
        NoLeaf0A = 7 "no-leaf-0a"
        /// Leaf 0x0A gives version 0.
        VersionZero = 8 "version-zero"
        /// Leaf 0x0A says that no bit of EBX is meaningful.
        NoEventBits = 9 "no-event-bits"
        /// Leaf 0x0A EBX bit 0: the core-cycle event is not available.
        NoCoreCycles = 10 "no-core-cycles"
        /// An Hv#1 hypervisor does not offer performance monitors (0x40000003 EDX bit 2 clear).
        HypervisorMasks = 11 "hypervisor-masks"
        /// A hypervisor that is not Hv#1, and no CPUID bit that proves AMD's counters.
        HypervisorUnproved = 12 "hypervisor-unproved"
        /// The machine has more CPU types than halprof distinguishes; this processor is
        /// not used.
        TooManyCpuTypes = 13 "too-many-cpu-types"
        /// Performance monitoring is not available: IA32_MISC_ENABLE bit 7 is clear, or CPUID leaf
        /// 1 EDX bit 5 (MSR) is.
        MonitoringDisabled = 14 "monitoring-disabled"
        /// A Pentium, P6 or NetBurst processor. halprof.sys is built without their interfaces.
        HistoricNotBuilt = 15 "historic-not-built"
    }
}

wire_enum! {
    /// How an overflow is reported.
    #[derive(FromZeros)]
    Delivery {
        /// Never: the counters have no interrupt, or there is no local APIC to deliver it.
        None = 0 "none"
        /// An interrupt through LVTPC; the counter is found by its value, below its preset.
        ByValue = 1 "interrupt-by-value"
        /// As `ByValue`, and the overflow bit is acknowledged in a status register.
        Acknowledged = 2 "interrupt-acknowledged"
        /// An interrupt through LVTPC; the counter is found by OVF in its CCCR.
        CccrFlag = 3 "interrupt-cccr-ovf"
    }
}
