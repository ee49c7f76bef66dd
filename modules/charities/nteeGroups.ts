/** The major groups of the National Taxonomy of Exempt Entities, by the first letter of a code (IRS, eo_info.pdf). */
const GROUPS: Readonly<Record<string, string>> = {
  A: "Arts, culture and humanities",
  B: "Education",
  C: "Environment",
  D: "Animals",
  E: "Health care",
  F: "Mental health and crisis intervention",
  G: "Diseases and disorders",
  H: "Medical research",
  I: "Crime and legal matters",
  J: "Employment",
  K: "Food, agriculture and nutrition",
  L: "Housing and shelter",
  M: "Public safety and disaster relief",
  N: "Recreation and sports",
  O: "Youth development",
  P: "Human services",
  Q: "International affairs",
  R: "Civil rights and advocacy",
  S: "Community improvement",
  T: "Philanthropy and grantmaking",
  U: "Science and technology",
  V: "Social science",
  W: "Public and societal benefit",
  X: "Religion",
  Y: "Mutual benefit",
};

/** Returns the name of a code's major group; empty for an unknown code. */
export const describeNtee = (code: string): string => GROUPS[code.slice(0, 1)] ?? "";
