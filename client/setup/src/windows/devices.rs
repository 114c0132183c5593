//! The root-enumerated device nodes with halprof's hardware id: SetupAPI, NewDev and CfgMgr32.

use super::library::Library;
use super::{last_error, succeeded, wide};
use crate::install_error::InstallError;
use crate::{Error, Result};
use shared_types::device::HARDWARE_ID;
use std::ptr;
use windows_sys::Win32::Devices::DeviceAndDriverInstallation::{
    CM_DISABLE_UI_NOT_OK, CM_Disable_DevNode, CM_Enable_DevNode, CM_Get_DevNode_Status,
    CM_PROB_DISABLED, CM_PROB_PHANTOM, CONFIGRET, CR_NEED_RESTART, CR_SUCCESS, DICD_GENERATE_ID,
    DIF_REGISTERDEVICE, DIGCF_ALLCLASSES, DN_HAS_PROBLEM, DN_STARTED, HDEVINFO, MAX_DEVICE_ID_LEN,
    SP_DEVINFO_DATA, SPDRP_HARDWAREID, SetupDiCallClassInstaller, SetupDiCreateDeviceInfoList,
    SetupDiCreateDeviceInfoW, SetupDiDestroyDeviceInfoList, SetupDiEnumDeviceInfo,
    SetupDiGetClassDevsW, SetupDiGetDeviceInstanceIdW, SetupDiGetDevicePropertyW,
    SetupDiGetDeviceRegistryPropertyW, SetupDiSetDeviceRegistryPropertyW,
};
use windows_sys::Win32::Devices::Properties::{
    DEVPKEY_Device_DriverInfPath, DEVPKEY_Device_ProblemStatus, DEVPROP_TYPE_NTSTATUS,
    DEVPROP_TYPE_STRING,
};
use windows_sys::Win32::Foundation::{DEVPROPKEY, FALSE, HWND, INVALID_HANDLE_VALUE};
use windows_sys::core::{BOOL, GUID};

type UninstallDevice =
    unsafe extern "system" fn(HWND, HDEVINFO, *const SP_DEVINFO_DATA, u32, *mut BOOL) -> BOOL;

/// A device information set (HDEVINFO).
struct Set(HDEVINFO);

impl Drop for Set {
    fn drop(&mut self) {
        // SAFETY: the set is open, and nothing uses it after this.
        unsafe { SetupDiDestroyDeviceInfoList(self.0) };
    }
}

impl Set {
    fn new(set: HDEVINFO, step: &'static str) -> Result<Self> {
        if set == INVALID_HANDLE_VALUE as HDEVINFO {
            return Err(last_error(step));
        }
        Ok(Self(set))
    }

    /// Every root-enumerated device, including those that are not present.
    fn rooted() -> Result<Self> {
        let enumerator = wide::terminated("ROOT");
        // SAFETY: no class is requested, the enumerator's name ends with a zero, and there is no
        // window.
        let set = unsafe {
            SetupDiGetClassDevsW(
                ptr::null(),
                enumerator.as_ptr(),
                ptr::null_mut(),
                DIGCF_ALLCLASSES,
            )
        };
        Self::new(set, "the devices could not be listed")
    }

    fn of_class(class: &GUID) -> Result<Self> {
        // SAFETY: the class is valid for reads, and there is no window.
        let set = unsafe { SetupDiCreateDeviceInfoList(class, ptr::null_mut()) };
        Self::new(set, "the device node could not be made")
    }

    fn element(&self, index: u32) -> Option<SP_DEVINFO_DATA> {
        let mut data = empty();
        // SAFETY: the set is open; `data` is valid for a write and holds its size.
        let done = unsafe { SetupDiEnumDeviceInfo(self.0, index, &raw mut data) };
        (done != FALSE).then_some(data)
    }
}

pub(super) struct Devices {
    set: Set,
    nodes: Vec<SP_DEVINFO_DATA>,
}

impl Devices {
    pub(super) fn find() -> Result<Self> {
        let set = Set::rooted()?;
        let mut nodes: Vec<SP_DEVINFO_DATA> = (0..).map_while(|index| set.element(index)).collect();
        nodes.retain(|data| Node { set: &set, data: *data }.is_ours());
        Ok(Self { set, nodes })
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = Node<'_>> {
        self.nodes.iter().map(|data| Node { set: &self.set, data: *data })
    }
}

/// Creates a device node with halprof's hardware id in this class, without a driver yet.
pub(super) fn create(class: &GUID) -> Result<()> {
    const STEP: &str = "the device node could not be made";
    let set = Set::of_class(class)?;
    let name = wide::terminated(shared_types::device::SERVICE);
    let mut data = empty();
    // SAFETY: the set is open, the name ends with a zero, the class is valid for reads, there is
    // neither a description nor a window, and `data` is valid for a write and holds its size.
    let created = unsafe {
        SetupDiCreateDeviceInfoW(
            set.0,
            name.as_ptr(),
            class,
            ptr::null(),
            ptr::null_mut(),
            DICD_GENERATE_ID,
            &raw mut data,
        )
    };
    succeeded(created, STEP)?;
    // As Microsoft's sample devcon does: the node has its id when it is registered.
    let ids = wide::list_of_one(HARDWARE_ID);
    // SAFETY: the set is open, `data` is its element, and `ids` is valid for reads of the bytes
    // given.
    let named = unsafe {
        SetupDiSetDeviceRegistryPropertyW(
            set.0,
            &raw mut data,
            SPDRP_HARDWAREID,
            ids.as_ptr().cast(),
            size_of_val(ids.as_slice()) as u32,
        )
    };
    succeeded(named, STEP)?;
    // SAFETY: the set is open and `data` is its element.
    let registered =
        unsafe { SetupDiCallClassInstaller(DIF_REGISTERDEVICE, set.0, &raw const data) };
    succeeded(registered, STEP)
}

pub(super) struct Node<'set> {
    set: &'set Set,
    data: SP_DEVINFO_DATA,
}

impl Node<'_> {
    fn is_ours(&self) -> bool {
        let ids = self.hardware_ids();
        ids.iter().any(|id| id.eq_ignore_ascii_case(HARDWARE_ID))
    }

    fn hardware_ids(&self) -> Vec<String> {
        // Windows' own ids are at most MAX_DEVICE_ID_LEN long; halprof's id comes first.
        let mut ids = [0u16; 1024];
        // SAFETY: the set is open and `data` is its element; no type is requested; `ids` is valid
        // for writes of the bytes given, and the size needed is not requested.
        let done = unsafe {
            SetupDiGetDeviceRegistryPropertyW(
                self.set.0,
                &raw const self.data,
                SPDRP_HARDWAREID,
                ptr::null_mut(),
                ids.as_mut_ptr().cast(),
                size_of_val(&ids) as u32,
                ptr::null_mut(),
            )
        };
        if done == FALSE {
            return Vec::new();
        }
        wide::texts(&ids)
    }

    /// The name of the device instance, such as `ROOT\HALPROF\0000`.
    pub(super) fn instance(&self) -> String {
        let mut name = [0u16; MAX_DEVICE_ID_LEN as usize];
        // SAFETY: the set is open and `data` is its element; `name` is valid for writes of the
        // characters given, and the size needed is not requested.
        let done = unsafe {
            SetupDiGetDeviceInstanceIdW(
                self.set.0,
                &raw const self.data,
                name.as_mut_ptr(),
                MAX_DEVICE_ID_LEN,
                ptr::null_mut(),
            )
        };
        if done == FALSE {
            return HARDWARE_ID.to_owned();
        }
        wide::text(&name)
    }

    /// The INF file in the driver store from which the device was installed.
    pub(super) fn package(&self) -> Option<String> {
        let mut name = [0u16; 260];
        let units = self.property(&DEVPKEY_Device_DriverInfPath, DEVPROP_TYPE_STRING, &mut name)?;
        Some(wide::text(units))
    }

    /// Why the driver does not run, or `None` if it does.
    pub(super) fn problem(&self) -> Option<InstallError> {
        let (mut status, mut problem) = (0, 0);
        // SAFETY: both are valid for a write; a device instance that is not present is refused.
        let result = unsafe {
            CM_Get_DevNode_Status(&raw mut status, &raw mut problem, self.data.DevInst, 0)
        };
        if result != CR_SUCCESS {
            problem = CM_PROB_PHANTOM;
        } else if status & DN_HAS_PROBLEM == 0 && status & DN_STARTED != 0 {
            return None;
        }
        Some(InstallError::NotRunning { problem, status: self.problem_status() })
    }

    fn problem_status(&self) -> u32 {
        let mut status = [0u16; 2];
        let key = &DEVPKEY_Device_ProblemStatus;
        match self.property(key, DEVPROP_TYPE_NTSTATUS, &mut status) {
            Some(&[low, high]) => u32::from(high) << 16 | u32::from(low),
            _ => 0,
        }
    }

    /// Fills `into` with a property of this type.
    fn property<'a>(
        &self,
        key: &DEVPROPKEY,
        property_type: u32,
        into: &'a mut [u16],
    ) -> Option<&'a [u16]> {
        let mut found_type = 0;
        // SAFETY: the set is open and `data` is its element; `key` is valid for reads, `found_type` for a
        // write, `into` for writes of the bytes given; the size needed is not requested.
        let done = unsafe {
            SetupDiGetDevicePropertyW(
                self.set.0,
                &raw const self.data,
                key,
                &raw mut found_type,
                into.as_mut_ptr().cast(),
                size_of_val(into) as u32,
                ptr::null_mut(),
                0,
            )
        };
        (done != FALSE && found_type == property_type).then_some(into)
    }

    pub(super) fn is_disabled(&self) -> bool {
        let problem = self.problem();
        matches!(problem, Some(InstallError::NotRunning { problem: CM_PROB_DISABLED, .. }))
    }

    /// Enables the device, which loads its driver; returns whether Windows asks for a restart.
    pub(super) fn enable(&self) -> Result<bool> {
        // SAFETY: takes no pointer; a device instance that is not present is refused.
        let result = unsafe { CM_Enable_DevNode(self.data.DevInst, 0) };
        restart_needed("the device could not be enabled", result)
    }

    /// Disables the device until it is enabled or Windows boots, which unloads its driver. Returns
    /// whether Windows asks for a restart.
    pub(super) fn disable(&self) -> Result<bool> {
        // SAFETY: takes no pointer; a device instance that is not present is refused.
        let result = unsafe { CM_Disable_DevNode(self.data.DevInst, CM_DISABLE_UI_NOT_OK) };
        restart_needed("the device could not be disabled", result)
    }

    /// Removes the device; returns whether Windows asks for a restart to finish.
    pub(super) fn remove(&self) -> Result<bool> {
        let mut restart = FALSE;
        let library = Library::load("newdev.dll")?;
        // SAFETY: this is the function's type (newdev.h).
        let uninstall = unsafe { library.function::<UninstallDevice>(c"DiUninstallDevice") }?;
        // SAFETY: there is no window; the set is open and `data` is its element; `restart` is
        // valid for a write.
        let done = unsafe {
            uninstall(ptr::null_mut(), self.set.0, &raw const self.data, 0, &raw mut restart)
        };
        succeeded(done, "the device could not be removed")?;
        Ok(restart != FALSE)
    }
}

fn restart_needed(step: &'static str, result: CONFIGRET) -> Result<bool> {
    match result {
        CR_SUCCESS => Ok(false),
        CR_NEED_RESTART => Ok(true),
        result => Err(Error::Install(InstallError::Refused { step, result })),
    }
}

fn empty() -> SP_DEVINFO_DATA {
    SP_DEVINFO_DATA { cbSize: size_of::<SP_DEVINFO_DATA>() as u32, ..Default::default() }
}
