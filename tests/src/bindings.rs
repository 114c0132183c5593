//! The Windows bindings that the driver was compiled with, as bindgen writes them.
//!
//! Sizes and offsets are those that bindgen makes the compiler assert: if one were wrong, the
//! driver would not have compiled.
#![expect(clippy::missing_panics_doc, reason = "what bindgen does not write fails the test")]

use std::collections::BTreeMap;
use syn::{BareFnArg, BinOp, Expr, File, FnArg, ForeignItem, Item, Lit, ReturnType, Type};

/// The types of a function's parameters, and of its result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// Names and types, in order.
    pub parameters: Vec<(String, String)>,
    /// Empty if there is none.
    pub returns: String,
}

/// Everything known about the bindings.
#[derive(Default)]
pub struct Bindings {
    /// Structures and unions, with their sizes.
    pub sizes: BTreeMap<String, u64>,
    /// Structures, with the offset of each member.
    pub offsets: BTreeMap<String, BTreeMap<String, u64>>,
    /// Enumerations, with each value.
    pub enumerations: BTreeMap<String, BTreeMap<String, i64>>,
    /// Macros that are numbers, with their values.
    pub constants: BTreeMap<String, i64>,
    /// Types that are a pointer to a function.
    pub function_types: BTreeMap<String, Signature>,
    /// Functions of the kernel.
    pub functions: BTreeMap<String, Signature>,
    /// Type aliases.
    pub aliases: BTreeMap<String, String>,
}

impl Bindings {
    /// Reads one of the files, or all of them concatenated.
    pub fn read(&mut self, source: &str) {
        let File { items, .. } = syn::parse_file(source).expect("Rust as bindgen writes it");
        for item in items {
            self.item(item);
        }
    }

    fn item(&mut self, item: Item) {
        match item {
            Item::Const(item) if item.ident == "_" => self.assertions(*item.expr),
            Item::Const(item) => {
                if let Some(value) = number(&item.expr) {
                    self.constants.insert(item.ident.to_string(), value);
                }
            }
            Item::Mod(item) => {
                let (_, items) = item.content.expect("a module's items");
                let values = items.iter().filter_map(|item| match item {
                    Item::Const(item) => Some((item.ident.to_string(), number(&item.expr)?)),
                    _ => None,
                });
                self.enumerations.insert(item.ident.to_string(), values.collect());
            }
            Item::Type(item) => self.alias(item.ident.to_string(), &item.ty),
            Item::ForeignMod(item) => {
                for item in item.items {
                    self.foreign(item);
                }
            }
            _ => {}
        }
    }

    /// `["Size of X"][size_of::<X>() - 4usize];`, and the same with offsets.
    fn assertions(&mut self, expression: Expr) {
        let Expr::Block(block) = expression else {
            return;
        };
        for statement in block.block.stmts {
            let syn::Stmt::Expr(Expr::Index(assertion), _) = statement else {
                continue;
            };
            let (Expr::Array(text), Expr::Binary(difference)) = (*assertion.expr, *assertion.index)
            else {
                continue;
            };
            assert!(matches!(difference.op, BinOp::Sub(_)), "a difference");
            let text = string(text.elems.first().expect("what is asserted"));
            let value = number(&difference.right).expect("the value").cast_unsigned();
            if let Some(name) = text.strip_prefix("Size of ") {
                self.sizes.insert(name.to_owned(), value);
            } else if let Some(member) = text.strip_prefix("Offset of field: ") {
                let (name, member) = member.split_once("::").expect("a member");
                let members = self.offsets.entry(name.to_owned()).or_default();
                members.insert(member.to_owned(), value);
            }
        }
    }

    fn alias(&mut self, name: String, ty: &Type) {
        if let Some(signature) = function_pointer(ty) {
            self.function_types.insert(name, signature);
        } else {
            self.aliases.insert(name, text(ty));
        }
    }

    fn foreign(&mut self, item: ForeignItem) {
        let ForeignItem::Fn(function) = item else {
            return;
        };
        let signature = function.sig;
        let parameters = signature.inputs.iter().map(|input| match input {
            FnArg::Typed(input) => (text(&input.pat), text(&input.ty)),
            FnArg::Receiver(_) => panic!("no method"),
        });
        let found =
            Signature { parameters: parameters.collect(), returns: returned(&signature.output) };
        self.functions.insert(signature.ident.to_string(), found);
    }

    /// The type behind all aliases.
    #[must_use]
    pub fn resolve(&self, ty: &str) -> String {
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
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => text.value(),
            _ => panic!("no string"),
        },
        _ => panic!("no literal"),
    }
}

fn number(expression: &Expr) -> Option<i64> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Int(number) => number.base10_parse().ok(),
            _ => None,
        },
        Expr::Unary(minus) => Some(-number(&minus.expr)?),
        _ => None,
    }
}
