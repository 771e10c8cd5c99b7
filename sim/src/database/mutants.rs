//! Planted bugs of the simulated Postgres: named defects that `conform` must see. All of them are
//! off unless a database is told otherwise.

macro_rules! model_mutants {
    ($($id:ident $defect:literal;)*) => {
        /// A named defect of the model.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum ModelMutant { $(#[doc = $defect] $id,)* }

        impl ModelMutant {
            /// Every planted defect, in the order of its id.
            pub const ALL: &'static [ModelMutant] = &[$(ModelMutant::$id,)*];

            /// The id used on the command line.
            pub fn id(self) -> &'static str {
                match self { $(ModelMutant::$id => stringify!($id),)* }
            }

            /// What is wrong while it is on.
            pub fn defect(self) -> &'static str {
                match self { $(ModelMutant::$id => $defect,)* }
            }
        }
    };
}

model_mutants! {
    M01 "a statement that waited reads the rows that it joins again";
    M02 "a lock that waited chooses its rows again";
    M03 "a released waiter is never woken";
    M04 "a row lock ends before its transaction, unless the row was written";
    M05 "skip locked stops at the first held row";
}

/// True if a planted bug of the engine is on that lies in a statement: every backend has it in its
/// SQL, and here it is where the statement is modelled.
macro_rules! mutated {
    ($id:ident) => {
        sluicegate::mutants::active() == Some(sluicegate::mutants::Mutant::$id)
    };
}
pub(super) use mutated;
