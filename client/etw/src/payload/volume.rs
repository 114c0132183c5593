//! Volumes (the class `SystemConfigEx`, written by the merge of traces): the layout is that of public
//! readers and real files.

use crate::bytes::layout;

layout! {
    /// What the kernel and what programs call the beginning of a path, such as
    /// `\Device\HarddiskVolume2\` and `C:\`.
    pub struct Volume {
        nt_path: utf16,
        dos_path: utf16,
    }
}
