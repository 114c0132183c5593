//! The Windows bindings that the driver was compiled with, as bindgen writes them.
//!
//! Sizes and offsets are those that bindgen makes the compiler assert: if one were wrong, the
//! driver would not have compiled.

use std::collections::BTreeMap;
use std::fmt;
use syn::{BareFnArg, Expr, File, FnArg, ForeignItem, Item, Lit, ReturnType, Type};

/// The names and types of a function's parameters, and the type of its result, empty if there is
/// none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signature {
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) returns: String,
}

/// As in kmdf-1.33-abi.json: `(Driver: WDFDRIVER, Tag: ULONG) -> NTSTATUS`.
impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |(name, ty): &(String, String)| format!("{name}: {ty}");
        let parameters: Vec<String> = self.parameters.iter().map(one).collect();
        write!(f, "({})", parameters.join(", "))?;
        if self.returns.is_empty() { Ok(()) } else { write!(f, " -> {}", self.returns) }
    }
}

/// Everything known about the bindings.
#[derive(Default)]
pub(crate) struct Bindings {
    /// `sizeof S`, `S.member` (an offset), `E.value` of an enumeration, and macros.
    pub(crate) numbers: BTreeMap<String, i64>,
    /// Functions of the kernel, and types that are a pointer to a function.
    pub(crate) functions: BTreeMap<String, Signature>,
    aliases: BTreeMap<String, String>,
}

impl Bindings {
    /// Reads one of the files.
    pub(crate) fn read(&mut self, source: &str) {
        let File { items, .. } = syn::parse_file(source).expect("Rust as bindgen writes it");
        for item in items {
            self.item(item);
        }
    }

    fn item(&mut self, item: Item) {
        match item {
            Item::Const(item) if item.ident == "_" => self.assertions(*item.expr),
            Item::Const(item) => {
                let value = number(&item.expr).map(|value| (item.ident.to_string(), value));
                self.numbers.extend(value);
            }
            Item::Mod(item) => {
                let (_, items) = item.content.expect("a module's items");
                self.numbers.extend(items.iter().filter_map(|value| match value {
                    Item::Const(value) => {
                        Some((format!("{}.{}", item.ident, value.ident), number(&value.expr)?))
                    }
                    _ => None,
                }));
            }
            Item::Type(item) => match function_pointer(&item.ty) {
                Some(signature) => {
                    self.functions.insert(item.ident.to_string(), signature);
                }
                None => {
                    self.aliases.insert(item.ident.to_string(), text(&item.ty));
                }
            },
            Item::ForeignMod(item) => item.items.into_iter().for_each(|item| self.foreign(item)),
            _ => {}
        }
    }

    /// `["Size of X"][size_of::<X>() - 4usize];`, and the same with offsets.
    fn assertions(&mut self, expression: Expr) {
        let Expr::Block(block) = expression else { return };
        for statement in block.block.stmts {
            let syn::Stmt::Expr(Expr::Index(assertion), _) = statement else { continue };
            let (Expr::Array(what), Expr::Binary(difference)) = (*assertion.expr, *assertion.index)
            else {
                continue;
            };
            let what = string(what.elems.first().expect("what is asserted"));
            let name = what.strip_prefix("Size of ").map(|name| format!("sizeof {name}"));
            let member = what.strip_prefix("Offset of field: ");
            if let Some(name) = name.or_else(|| Some(member?.replace("::", "."))) {
                self.numbers.insert(name, number(&difference.right).expect("the value"));
            }
        }
    }

    fn foreign(&mut self, item: ForeignItem) {
        let ForeignItem::Fn(function) = item else { return };
        let parameters = function.sig.inputs.iter().map(|input| match input {
            FnArg::Typed(input) => (text(&input.pat), text(&input.ty)),
            FnArg::Receiver(_) => panic!("no method"),
        });
        let (parameters, returns) = (parameters.collect(), returned(&function.sig.output));
        self.functions.insert(function.sig.ident.to_string(), Signature { parameters, returns });
    }

    /// The type behind all aliases.
    pub(crate) fn resolve(&self, ty: &str) -> String {
        let pointer = |kind: &str| Some(format!("{kind}{}", self.resolve(ty.strip_prefix(kind)?)));
        if let Some(pointer) = pointer("*mut ").or_else(|| pointer("*const ")) {
            return pointer;
        }
        self.aliases.get(ty).map_or_else(|| ty.to_owned(), |other| self.resolve(other))
    }
}

/// `Option<unsafe extern "C" fn(..) -> ..>`
fn function_pointer(ty: &Type) -> Option<Signature> {
    let Type::Path(path) = ty else { return None };
    let syn::PathArguments::AngleBracketed(inner) = &path.path.segments.last()?.arguments else {
        return None;
    };
    let syn::GenericArgument::Type(Type::BareFn(function)) = inner.args.first()? else {
        return None;
    };
    let parameter = |input: &BareFnArg| {
        let name = input.name.as_ref().map(|(name, _)| name.to_string());
        (name.unwrap_or_default(), text(&input.ty))
    };
    Some(Signature {
        parameters: function.inputs.iter().map(parameter).collect(),
        returns: returned(&function.output),
    })
}

fn returned(output: &ReturnType) -> String {
    match output {
        ReturnType::Default => String::new(),
        ReturnType::Type(_, ty) => text(ty),
    }
}

fn text(tokens: &impl quote::ToTokens) -> String {
    let text = tokens.to_token_stream().to_string();
    let text = text.replace("* mut", "*mut").replace("* const", "*const");
    text.replace(" :: ", "::").replace(":: ", "::")
}

fn string(expression: &Expr) -> String {
    match expression {
        Expr::Lit(syn::ExprLit { lit: Lit::Str(text), .. }) => text.value(),
        _ => panic!("no text"),
    }
}

fn number(expression: &Expr) -> Option<i64> {
    match expression {
        Expr::Lit(syn::ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse().ok(),
        Expr::Unary(minus) => Some(-number(&minus.expr)?),
        _ => None,
    }
}
