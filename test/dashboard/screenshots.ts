/** A picture of a public page in docs/images. */
type Shot = {
  readonly name: string;
  readonly of: "demo" | "shop" | "page" | "certificate";
  readonly width: number;
  readonly colorScheme: "light" | "dark";
  readonly media?: "print";
  readonly height?: number;
};

/** The width of A4 at 96 pixels an inch. */
const PAPER = 794;

export const SHOTS: readonly Shot[] = [
  { name: "page-desktop-light", of: "page", width: 1280, colorScheme: "light" },
  { name: "demo", of: "demo", width: 1280, colorScheme: "light" },
  { name: "shop", of: "shop", width: 1280, colorScheme: "light" },
  { name: "page-phone-dark", of: "page", width: 360, colorScheme: "dark" },
  { name: "page-printed", of: "page", width: PAPER, colorScheme: "dark", media: "print" },
  { name: "page-top", of: "page", width: 1280, colorScheme: "light", height: 860 },
  { name: "certificate-desktop-light", of: "certificate", width: 1280, colorScheme: "light" },
  { name: "certificate-phone-dark", of: "certificate", width: 360, colorScheme: "dark" },
  {
    name: "certificate-printed",
    of: "certificate",
    width: PAPER,
    colorScheme: "light",
    media: "print",
  },
];
