//! The system (MOF classes below `SystemConfig`; what merging adds is as public readers have it).

use crate::bytes::{Fields, Layout, layout};

/// The processors and the memory (`SystemConfig_CPU`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    pub cpu: Processors,
    pub domain: String,
    /// Which processors share a core.
    pub hyper_threading: u64,
    /// From version 3 on.
    pub architecture: Option<Architecture>,
}

layout! {
    /// What all versions have.
    pub struct Processors {
        mhz: u32,
        processors: u32,
        memory_mb: u32,
        page_size: u32,
        granularity: u32,
        computer: utf16_field(256),
    }
}

layout! {
    /// The processors' architecture.
    pub struct Architecture {
        highest_user_address: pointer,
        /// 0 is x86, 9 x64, 12 Arm64 (sysinfoapi.h, `wProcessorArchitecture`).
        architecture: u16,
        /// The family.
        level: u16,
        /// Model and stepping.
        revision: u16,
        pae: u8,
        nx: u8,
        /// In MHz, or 0.
        memory_speed: u32,
    }
}

layout! {
    /// A disk (`SystemConfig_PhyDisk`).
    pub struct PhysicalDisk {
        disk: u32,
        bytes_per_sector: u32,
        sectors_per_track: u32,
        tracks_per_cylinder: u32,
        cylinders: u64,
        scsi_port: u32,
        scsi_path: u32,
        scsi_target: u32,
        scsi_lun: u32,
        manufacturer: utf16_field(256),
        partitions: u32,
        write_cache: u8,
        boot_drive_letter: utf16_field(3) after 1,
        spare: utf16_field(2),
    }
}

layout! {
    /// A volume (`SystemConfig_LogDisk`).
    pub struct LogicalDisk {
        start_offset: u64,
        partition_size: u64,
        disk: u32,
        /// The length of this.
        size: u32,
        drive_type: u32,
        /// With a colon.
        drive_letter: utf16_field(4),
        partition: u32 after 4,
        sectors_per_cluster: u32,
        bytes_per_sector: u32,
        free_clusters: u64 after 4,
        total_clusters: u64,
        file_system: utf16_field(16),
        volume_extent: u32,
    }
}

layout! {
    /// A device (`SystemConfig_PnP`, version 5).
    pub struct Device {
        class: guid,
        upper_filters: u32,
        lower_filters: u32,
        status: u32,
        problem: u32,
        device_id: utf16,
        description: utf16,
        friendly_name: utf16,
        pdo_name: utf16,
        service_name: utf16,
    }
}

layout! {
    /// The build of the system.
    pub struct Build {
        install_date: u64,
        build_lab: utf16,
        product: utf16,
    }
}

layout! {
    /// Windows' folders.
    pub struct Folders {
        system: utf16,
        windows: utf16,
    }
}

layout! {
    /// A volume's two names.
    pub struct Volume {
        /// As the kernel names it, such as `\Device\HarddiskVolume2\`.
        nt_path: utf16,
        /// Its letter.
        dos_path: utf16,
    }
}

pub(super) fn cpu(version: u16, mut fields: Fields<'_>) -> Option<Cpu> {
    let fields = &mut fields;
    Some(Cpu {
        cpu: Processors::read(fields)?,
        domain: fields.utf16_field(if version >= 2 { 134 } else { 132 })?,
        hyper_threading: fields.pointer()?,
        architecture: if version >= 3 { Some(Architecture::read(fields)?) } else { None },
    })
}
