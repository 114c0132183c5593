//! Does docs/requests.md say the same about every request as shared-types, and does WinDbg's script
//! name every refusal? Both are generated: after a change, `HALPROF_SCREENS=write` regenerates them.

use halprof_tests::facts::number;
use quote::ToTokens;
use shared_types::request::{Access, RequestCode};
use shared_types::{ErrorCode, LossCause, WIRE_VERSION};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use syn::{Attribute, Expr, Fields, File, GenericArgument, ImplItem, Item, PathArguments, Type};

/// The function number of the first request, in CTL_CODE.
const FIRST_FUNCTION: u32 = 0x800;
const HEAD: &str = include_str!("../data/requests-head.md");

/// A structure of the wire format.
struct Layout {
    name: String,
    doc: String,
    /// Offset, bytes, name, meaning.
    fields: Vec<(usize, usize, String, String)>,
    bytes: usize,
    constants: Vec<(String, String, String)>,
}

/// Everything in shared-types that is on the wire, in the order of its files.
#[derive(Default)]
struct Wire {
    parts: Vec<Part>,
    sizes: BTreeMap<String, usize>,
    numbers: BTreeMap<String, usize>,
}

/// The code of a request.
struct Code {
    /// Its function number, from 0.
    number: u32,
    name: String,
    doc: String,
}

/// One file of it.
struct Part {
    title: String,
    codes: Vec<Code>,
    /// Names, values and meanings.
    flags: Vec<(String, String, String)>,
    layouts: Vec<Layout>,
}

fn source(file: &str) -> (String, File) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared-types/src");
    let text = std::fs::read_to_string(path.join(file)).expect(file);
    let parsed = syn::parse_file(&text).expect(file);
    (text, parsed)
}

/// The size that the source itself asserts for a structure.
fn asserted(text: &str, name: &str) -> Option<usize> {
    let wire = format!("size_of::<{name}>() == ");
    let hal = format!("layout!({name}, ");
    let (_, rest) = text.split_once(&wire).or_else(|| text.split_once(&hal))?;
    let sum = rest.split([')', ',']).next()?;
    let number = |text: &str| number(text.trim()) as usize;
    let product = |text: &str| text.split('*').map(number).product::<usize>();
    Some(sum.split('+').map(product).sum())
}

/// A doc comment as one line of Markdown: links within the crate become code.
fn doc(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let value = &attribute.meta.require_name_value().ok()?.value;
        let Expr::Lit(literal) = value else {
            return None;
        };
        let syn::Lit::Str(text) = &literal.lit else {
            return None;
        };
        attribute.path().is_ident("doc").then(|| text.value())
    });
    let text = lines.collect::<Vec<_>>().join(" ");
    let mut words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    while let Some(start) = words.find("[`") {
        let end = start + words[start..].find("`]").expect("the end of a link");
        let name = words[start + 2..end].rsplit("::").next().expect("a name");
        words = format!("{}`{name}`{}", &words[..start], &words[end + 2..]);
    }
    words.replace('|', "\\|")
}

impl Wire {
    fn number(&self, expression: &Expr) -> usize {
        let text = expression.to_token_stream().to_string().replace(' ', "");
        if text == "LossCause::ALL.len()" {
            return LossCause::ALL.len();
        }
        match text.split_once('/') {
            Some((above, below)) => self.named(above) / self.named(below),
            None => self.named(&text),
        }
    }

    fn named(&self, text: &str) -> usize {
        let known = text.parse().ok().or_else(|| self.numbers.get(text).copied());
        known.unwrap_or_else(|| panic!("{text} is no number that is known"))
    }

    fn bytes(&self, of: &Type) -> usize {
        match of {
            Type::Array(array) => self.bytes(&array.elem) * self.number(&array.len),
            Type::Path(path) => {
                let last = path.path.segments.last().expect("a name");
                let name = last.ident.to_string();
                match (name.as_str(), &last.arguments) {
                    ("u8", _) => 1,
                    ("u16", _) => 2,
                    ("u32" | "i32", _) => 4,
                    ("u64", _) => 8,
                    ("Text", PathArguments::AngleBracketed(arguments)) => {
                        match arguments.args.first() {
                            Some(GenericArgument::Const(length)) => self.number(length),
                            _ => panic!("a text without a length"),
                        }
                    }
                    _ => *self.sizes.get(&name).unwrap_or_else(|| panic!("{name}")),
                }
            }
            other => panic!("{}", other.to_token_stream()),
        }
    }

    /// What several requests have.
    fn add_common(&mut self) {
        self.add("header.rs", "What every request and reply begins with");
        self.add("request.rs", "A request without arguments");
        self.add("hal.rs", "The HAL's structures");
        self.add("sample.rs", "A sample");
        self.add("branch.rs", "A branch before a sample");
        self.add("event.rs", "A system event");
    }

    /// The requests, after what several of them have.
    fn add_requests(&mut self) {
        for (file, title) in [
            ("machine", "The machine"),
            ("source", "Sources"),
            ("session", "Sessions"),
            ("counts", "Counts"),
            ("samples", "Samples"),
            ("rdpmc", "RDPMC in user mode"),
            ("threads", "Counting by thread"),
            ("events", "System events"),
        ] {
            self.add(&format!("request/{file}.rs"), title);
        }
    }

    fn add(&mut self, file: &str, title: &str) {
        let (text, parsed) = source(file);
        let mut part = Part {
            title: title.to_owned(),
            codes: Vec::new(),
            flags: Vec::new(),
            layouts: Vec::new(),
        };
        for item in &parsed.items {
            match item {
                Item::Const(constant) if constant.ident != "_" => {
                    let name = constant.ident.to_string();
                    let value = constant.expr.to_token_stream().to_string();
                    let kind = constant.ty.to_token_stream().to_string();
                    if kind == "RequestCode" {
                        let (number, doc) = (function(&value), doc(&constant.attrs));
                        part.codes.push(Code { number, name, doc });
                    } else if kind == "usize" {
                        let known = value.parse().or_else(|_| value.replace(' ', "").parse());
                        if let Ok(value) = known {
                            self.numbers.insert(name, value);
                        }
                    } else {
                        part.flags.push((name, value, doc(&constant.attrs)));
                    }
                }
                Item::Type(alias) => {
                    let bytes = self.bytes(&alias.ty);
                    self.sizes.insert(alias.ident.to_string(), bytes);
                }
                Item::Struct(structure) => {
                    let Some(layout) = self.layout(structure) else {
                        continue;
                    };
                    self.sizes.insert(layout.name.clone(), layout.bytes);
                    let bytes = asserted(&text, &layout.name);
                    assert!(
                        bytes == Some(layout.bytes) || layout.name == "Plain",
                        "{}: {} and {bytes:?}",
                        layout.name,
                        layout.bytes
                    );
                    part.layouts.push(layout);
                }
                Item::Impl(block) => {
                    let name = block.self_ty.to_token_stream().to_string();
                    let mut layouts = part.layouts.iter_mut();
                    let Some(layout) = layouts.find(|layout| layout.name == name) else {
                        continue;
                    };
                    for item in &block.items {
                        if let ImplItem::Const(constant) = item {
                            layout.constants.push((
                                constant.ident.to_string(),
                                constant.expr.to_token_stream().to_string(),
                                doc(&constant.attrs),
                            ));
                        }
                    }
                }
                _ => {}
            }
        }
        self.parts.push(part);
    }

    /// `None` for a number with its own name.
    fn layout(&self, structure: &syn::ItemStruct) -> Option<Layout> {
        let Fields::Named(named) = &structure.fields else {
            return None;
        };
        let mut bytes = 0;
        let mut fields = Vec::new();
        for field in &named.named {
            let length = self.bytes(&field.ty);
            let name = field.ident.as_ref().expect("a name").to_string();
            fields.push((bytes, length, name, doc(&field.attrs)));
            bytes += length;
        }
        Some(Layout {
            name: structure.ident.to_string(),
            doc: doc(&structure.attrs),
            fields,
            bytes,
            constants: Vec::new(),
        })
    }
}

fn page() -> String {
    let mut wire = Wire::default();
    wire.add_common();
    wire.add_requests();
    let of = |code: &RequestCode| (code.0 >> 2 & 0xFFF) - FIRST_FUNCTION;
    // A request that this version does not answer is left out.
    let answered = |number: &u32| RequestCode::ALL.iter().any(|(code, _)| of(code) == *number);
    wire.parts.retain(|part| {
        part.codes.is_empty() || part.codes.iter().any(|code| answered(&code.number))
    });
    let codes: BTreeMap<u32, &str> = wire
        .parts
        .iter()
        .flat_map(|part| part.codes.iter().map(|code| (code.number, code.doc.as_str())))
        .collect();
    let mut page = HEAD.replace("WIRE_VERSION", &WIRE_VERSION.to_string());
    page += "\n## Requests\n| code | request | right | input and output |\n|---|---|---|---|\n";
    for (code, name) in RequestCode::ALL {
        let right = match code.access() {
            Some(Access::Read) => "read",
            Some(Access::Write) => "write",
            None => "none",
        };
        let meaning = codes[&of(code)];
        let _ = writeln!(page, "| `{:#010X}` | {name} | {right} | {meaning} |", code.0);
    }
    for part in &wire.parts {
        let _ = writeln!(page, "\n## {}", part.title);
        constants(&mut page, &part.flags);
        for layout in &part.layouts {
            let _ = writeln!(
                page,
                "\n### `{}`, {} bytes\n{}\n\n| offset | bytes | field | |\n|---|---|---|---|",
                layout.name, layout.bytes, layout.doc
            );
            for (offset, bytes, name, meaning) in &layout.fields {
                let _ = writeln!(page, "| {offset} | {bytes} | `{name}` | {meaning} |");
            }
            constants(&mut page, &layout.constants);
        }
    }
    page += "\n## Refusals\n`halprof explain CODE` has causes and what to do.\n\n| number | code |\n|---|---|\n";
    for code in ErrorCode::ALL {
        let _ = writeln!(page, "| {} | `{}` |", *code as u32, code.code());
    }
    page
}

/// The number in `RequestCode::new(NUMBER, ...)`.
fn function(expression: &str) -> u32 {
    let (_, rest) = expression.split_once('(').expect("a call");
    let first = rest.split(',').next().expect("a number");
    number(first.trim()) as u32
}

fn constants(page: &mut String, all: &[(String, String, String)]) {
    if all.is_empty() {
        return;
    }
    page.push_str("\n| constant | value | |\n|---|---|---|\n");
    for (name, value, meaning) in all {
        let _ = writeln!(page, "| `{name}` | `{value}` | {meaning} |");
    }
}

/// Compares a generated file with the one that is kept, or writes it.
fn compare(path: &str, make: impl FnOnce(&str) -> String) {
    let file: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    let new = make(&there);
    if std::env::var_os("HALPROF_SCREENS").is_some_and(|value| value == "write") {
        std::fs::write(&file, &new).expect("written");
    } else {
        let how = "HALPROF_SCREENS=write makes it anew";
        assert!(new == there, "{path} is not what shared-types says: {how}");
    }
}

#[test]
fn the_page_of_requests_is_what_shared_types_says() {
    compare("docs/requests.md", |_| page());
}

/// The debugger's script knows no Rust, so its lists of names are made from the same tables.
#[test]
fn the_debuggers_script_names_every_request_and_refusal() {
    compare("driver/windbg/halprof.js", |script| {
        let requests = request_names().into_values().map(|name| format!("\"{name}\","));
        let script = with_list(script, "const REQUESTS = [\n", requests);
        let refusals = ErrorCode::ALL.iter().map(|code| format!("\"{code:?}\","));
        // The wire has no number 0.
        let refusals = std::iter::once("undefined,".to_owned()).chain(refusals);
        with_list(&script, "    \"shared_types::error::ErrorCode\": [\n", refusals)
    });
}

/// What shared-types calls each request, by its number.
fn request_names() -> BTreeMap<u32, String> {
    let mut wire = Wire::default();
    wire.add_common();
    wire.add_requests();
    let codes = wire.parts.into_iter().flat_map(|part| part.codes);
    let names: BTreeMap<u32, String> = codes.map(|code| (code.number, code.name)).collect();
    assert!(names.keys().copied().eq(0..names.len() as u32), "the script finds names by numbers");
    names
}

/// The same script, in which the list after `begin` has these elements, as many in a line as fit.
fn with_list(script: &str, begin: &str, elements: impl Iterator<Item = String>) -> String {
    let indent = begin.len() - begin.trim_start().len();
    let end = format!("{}]", " ".repeat(indent));
    let (before, rest) = script.split_once(begin).expect("the list");
    let (_, after) = rest.split_once(&format!("\n{end}")).expect("its end");
    let mut lines = Vec::new();
    let mut line = " ".repeat(indent + 3);
    for element in elements {
        if line.len() + 1 + element.len() > 100 {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent + 3)));
        }
        line = line + " " + &element;
    }
    lines.push(line);
    format!("{before}{begin}{}\n{end}{after}", lines.join("\n"))
}
