//! The numbers of calls, for calls on names and calls on open files alike.

macro_rules! call_codes {
    ($type:ident: $($(#[$doc:meta])* $name:ident = $code:literal, $text:literal, $changes:literal;)*) => {
        /// The number of a call.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $type { $($(#[$doc])* $name = $code,)* }

        impl $type {
            /// Every call that this version offers, in the order of its number.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The call of a number; none where this version does not offer it.
            pub const fn from_number(number: u64) -> Option<Self> {
                match number { $($code => Some(Self::$name),)* _ => None }
            }

            /// The name for people.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Whether it changes what is stored.
            pub const fn changes(self) -> bool {
                match self { $(Self::$name => $changes,)* }
            }
        }
    };
}

pub(super) use call_codes;
