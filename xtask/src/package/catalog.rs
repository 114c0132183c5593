//! halprof.cat: the hashes of the package's files, in the format that the WDK's inf2cat writes.
//!
//! A catalog is a PKCS #7 SignedData over a certificate trust list ([MS-CAESO] 2.2.3.3.1) whose
//! subjects are files. This is version 2 of the format, with SHA-256: wintrust.h has the object
//! identifiers, and Microsoft's "Windows Authenticode Portable Executable Signature Format"
//! describes their contents.

use super::archive::File;
use anyhow::{Context, Result};
use authenticode::{PeTrait, authenticode_digest};
use cms::content_info::{CmsVersion, ContentInfo};
use cms::signed_data::{EncapsulatedContentInfo, SignedData, SignerInfos};
use der::asn1::{Any, BmpString, Null, ObjectIdentifier, OctetString, SetOfVec, UtcTime};
use der::{DateTime, Decode, Encode, Sequence, Tag, TagNumber};
use object::read::pe::PeFile64;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use x509_cert::attr::{Attribute, AttributeTypeAndValue};
use x509_cert::ext::Extension;
use x509_cert::spki::AlgorithmIdentifierOwned;

const SIGNED_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.7.2");
const SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.2.1");
/// `szOID_CTL`
const CTL: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.10.1");
/// `szOID_CATALOG_LIST`
const CATALOG_LIST: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.1.1");
/// `szOID_CATALOG_LIST_MEMBER2`
const CATALOG_LIST_MEMBER2: ObjectIdentifier =
    ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.1.3");
/// `CAT_NAMEVALUE_OBJID`
const CAT_NAMEVALUE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.2.1");
/// `CAT_MEMBERINFO2_OBJID`
const CAT_MEMBERINFO2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.12.2.3");
/// `SPC_INDIRECT_DATA_OBJID`
const SPC_INDIRECT_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.4");
/// `SPC_PE_IMAGE_DATA_OBJID`
const SPC_PE_IMAGE_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.15");
/// `SPC_CAB_DATA_OBJID`: what makecat uses for every file that is not an image.
const SPC_CAB_DATA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.311.2.1.25");

/// `SpcPeImageData`: the flags that makecat writes, and an empty file link.
const PE_IMAGE_DATA: &[u8] =
    &[0x30, 0x0a, 0x03, 0x02, 0x05, 0xa0, 0xa0, 0x04, 0xa2, 0x02, 0x80, 0x00];
/// `SpcLink`: an empty file link.
const NO_LINK: &[u8] = &[0xa2, 0x02, 0x80, 0x00];

/// `CRYPTCAT_ATTR_AUTHENTICATED | CRYPTCAT_ATTR_NAMEASCII | CRYPTCAT_ATTR_DATAASCII`
const NAME_AND_VALUE_ARE_TEXT: u32 = 0x1001_0001;

/// Windows 10 and 11: platform 2 (NT), version 10.0.
const OS: (&str, &str) = ("OSAttr", "2:10.0");

/// How a file is hashed, and how its member entry says so.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// By the Authenticode digest, which excludes the embedded signature.
    Image,
    /// By a hash of every byte.
    Flat,
}

/// A file that the catalog vouches for.
pub(super) type Member<'a> = (&'a File, Kind);

/// `CertificateTrustList`, [MS-CAESO] 2.2.3.3.1.
#[derive(Sequence)]
struct TrustList {
    subject_usage: Vec<ObjectIdentifier>,
    list_identifier: OctetString,
    this_update: UtcTime,
    subject_algorithm: AlgorithmIdentifierOwned,
    trusted_subjects: Vec<TrustedSubject>,
    #[asn1(context_specific = "0", tag_mode = "EXPLICIT")]
    extensions: Vec<Extension>,
}

#[derive(Sequence)]
struct TrustedSubject {
    identifier: OctetString,
    attributes: SetOfVec<Attribute>,
}

/// `CAT_NAMEVALUE`
#[derive(Sequence)]
struct NameValue {
    name: BmpString,
    flags: u32,
    /// UTF-16LE, zero-terminated.
    value: OctetString,
}

/// `SpcIndirectDataContent`
#[derive(Sequence)]
struct IndirectData {
    data: AttributeTypeAndValue,
    digest: DigestInfo,
}

#[derive(Sequence)]
struct DigestInfo {
    algorithm: AlgorithmIdentifierOwned,
    digest: OctetString,
}

/// The unsigned catalog of `members` for devices with `hardware_id`.
pub(super) fn unsigned(
    members: &[Member<'_>],
    hardware_id: &str,
    date: DateTime,
) -> Result<Vec<u8>> {
    let mut subjects = Vec::new();
    for &member in members {
        subjects.extend(trusted_subjects(member).with_context(|| member.0.name.clone())?);
    }
    subjects.sort_by(|one, other| {
        let (one, other) = (&one.identifier, &other.identifier);
        one.as_bytes().cmp(other.as_bytes())
    });
    let list = TrustList {
        subject_usage: vec![CATALOG_LIST],
        list_identifier: OctetString::new(list_identifier(&subjects))?,
        this_update: UtcTime::from_date_time(date)?,
        subject_algorithm: algorithm(CATALOG_LIST_MEMBER2),
        trusted_subjects: subjects,
        extensions: vec![extension("HWID1", &hardware_id.to_lowercase())?, extension(OS.0, OS.1)?],
    };
    let signed_data = SignedData {
        version: CmsVersion::V1,
        digest_algorithms: SetOfVec::new(),
        encap_content_info: EncapsulatedContentInfo {
            econtent_type: CTL,
            econtent: Some(Any::encode_from(&list)?),
        },
        certificates: None,
        crls: None,
        signer_infos: SignerInfos(SetOfVec::new()),
    };
    let catalog =
        ContentInfo { content_type: SIGNED_DATA, content: Any::encode_from(&signed_data)? };
    Ok(catalog.to_der()?)
}

/// A file's two entries, as makecat writes them: one under its SHA-256 with all of the data, and
/// one under the SHA-1 by which older callers look files up.
fn trusted_subjects((file, kind): Member<'_>) -> Result<[TrustedSubject; 2]> {
    let sha256 = digest::<Sha256>(file, kind)?;
    let info = attribute(CAT_MEMBERINFO2, member_info(kind)?)?;
    let attributes = [
        info.clone(),
        attribute(CAT_NAMEVALUE, name_value("File", &file.name)?)?,
        attribute(CAT_NAMEVALUE, name_value(OS.0, OS.1)?)?,
        attribute(SPC_INDIRECT_DATA, indirect_data(kind, &sha256)?)?,
    ];
    Ok([
        TrustedSubject {
            identifier: OctetString::new(sha256)?,
            attributes: SetOfVec::try_from(attributes)?,
        },
        TrustedSubject {
            identifier: OctetString::new(digest::<Sha1>(file, kind)?)?,
            attributes: SetOfVec::try_from([info])?,
        },
    ])
}

fn digest<D: Digest + sha2::digest::Update>(file: &File, kind: Kind) -> Result<Vec<u8>> {
    let mut hash = D::new();
    match kind {
        Kind::Image => {
            let image = PeFile64::parse(&*file.contents).context("it is no 64-bit PE image")?;
            authenticode_digest(&image as &dyn PeTrait, &mut hash)
                .ok()
                .context("its Authenticode digest cannot be computed")?;
        }
        Kind::Flat => Digest::update(&mut hash, &file.contents),
    }
    Ok(hash.finalize().to_vec())
}

/// `CAT_MEMBERINFO2` gives only the kind of file, as an empty element whose tag is its number.
fn member_info(kind: Kind) -> Result<Any> {
    let number = match kind {
        Kind::Image => TagNumber::N0,
        Kind::Flat => TagNumber::N2,
    };
    let tag = Tag::ContextSpecific { constructed: false, number };
    Ok(Any::new(tag, [])?)
}

fn indirect_data(kind: Kind, sha256: &[u8]) -> Result<Any> {
    let (oid, value) = match kind {
        Kind::Image => (SPC_PE_IMAGE_DATA, PE_IMAGE_DATA),
        Kind::Flat => (SPC_CAB_DATA, NO_LINK),
    };
    Ok(Any::encode_from(&IndirectData {
        data: AttributeTypeAndValue { oid, value: Any::from_der(value)? },
        digest: DigestInfo { algorithm: algorithm(SHA256), digest: OctetString::new(sha256)? },
    })?)
}

fn name_value(name: &str, value: &str) -> Result<Any> {
    let value: Vec<u8> = value.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect();
    Ok(Any::encode_from(&NameValue {
        name: BmpString::from_utf8(name)?,
        flags: NAME_AND_VALUE_ARE_TEXT,
        value: OctetString::new(value)?,
    })?)
}

fn extension(name: &str, value: &str) -> Result<Extension> {
    Ok(Extension {
        extn_id: CAT_NAMEVALUE,
        critical: false,
        extn_value: OctetString::new(name_value(name, value)?.to_der()?)?,
    })
}

fn attribute(oid: ObjectIdentifier, value: Any) -> Result<Attribute> {
    let values = SetOfVec::try_from([value])?;
    Ok(Attribute { oid, values })
}

fn algorithm(oid: ObjectIdentifier) -> AlgorithmIdentifierOwned {
    AlgorithmIdentifierOwned { oid, parameters: Some(Null.into()) }
}

/// 16 bytes that identify this list: the same for the same files, so that a package can be
/// reproduced.
fn list_identifier(subjects: &[TrustedSubject]) -> Vec<u8> {
    let mut hash = Sha256::new();
    for subject in subjects {
        Digest::update(&mut hash, subject.identifier.as_bytes());
    }
    hash.finalize()[..16].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(contents: &[u8]) -> File {
        File { name: "a.inf".to_owned(), contents: contents.to_vec() }
    }

    #[test]
    fn the_same_files_give_the_same_catalog_and_others_another() {
        let catalog =
            |contents| unsigned(&[(&file(contents), Kind::Flat)], "root\\a", date()).unwrap();
        assert_eq!(catalog(b"a"), catalog(b"a"));
        assert_ne!(catalog(b"a"), catalog(b"b"));
    }

    #[test]
    fn a_file_that_is_no_image_is_refused_by_its_name() {
        let refused = unsigned(&[(&file(b"a"), Kind::Image)], "root\\a", date()).unwrap_err();
        assert_eq!(
            format!("{refused:#}"),
            "a.inf: it is no 64-bit PE image: Invalid DOS header size or alignment"
        );
    }

    /// A member that makecat wrote, taken from the catalog that osslsigncode's own tests sign.
    #[test]
    fn a_flat_member_is_the_bytes_that_makecat_writes() {
        let data = indirect_data(Kind::Flat, &[0x21; 32]).unwrap().to_der().unwrap();
        let start = [
            0x30, 0x45, 0x30, 0x10, 0x06, 0x0a, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02,
            0x01, 0x19, 0xa2, 0x02, 0x80, 0x00, 0x30, 0x31, 0x30, 0x0d,
        ];
        assert_eq!(data[..start.len()], start);
        assert_eq!(member_info(Kind::Flat).unwrap().to_der().unwrap(), [0x82, 0]);
        assert_eq!(member_info(Kind::Image).unwrap().to_der().unwrap(), [0x80, 0]);
    }

    fn date() -> DateTime {
        DateTime::new(2026, 1, 2, 3, 4, 5).unwrap()
    }
}
