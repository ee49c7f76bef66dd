import { z } from "zod";
import type { Kind } from "../records/owner.rules.ts";
import { text } from "../records/fields.rules.ts";
import { parseColor } from "./brandColor.rules.ts";

/** The parts of the page that an organization may hide. Registered and verified trees always show. */
export const HIDEABLE_SECTIONS = ["bottles", "donations", "months", "sites", "photos"] as const;
export type HideableSection = (typeof HIDEABLE_SECTIONS)[number];

/** The names of the kinds in what is public. */
export const UNIT_FIELDS = { tree: "trees", bottle: "bottles" } as const satisfies Record<
  Kind,
  "trees" | HideableSection
>;
export type UnitField = (typeof UNIT_FIELDS)[Kind];

export const PICTURE_TYPES = ["png", "jpeg", "webp"] as const;
export type PictureType = (typeof PICTURE_TYPES)[number];

/** A picture whose hash is in its URL, after the name of a cell. */
const logo = z.strictObject({
  hash: z.string(),
  type: z.enum(PICTURE_TYPES),
  width: z.int(),
  height: z.int(),
});
export type Logo = Readonly<z.output<typeof logo>>;

export const profileRow = z.strictObject({
  /** Null shows the account's name. */
  displayName: z.string().nullable(),
  /** As given, `#rrggbb`; pages use `brandColorsOf` it. Null is the default color. */
  color: z.string().nullable(),
  homeUrl: z.string().nullable(),
  /** Plain text; an empty line starts a paragraph. */
  story: z.string().nullable(),
  hiddenSections: z.array(z.enum(HIDEABLE_SECTIONS)),
  showsCarbon: z.boolean(),
  logo: logo.nullable(),
});

export type Profile = Readonly<z.output<typeof profileRow>>;

/** Absent settings stay unchanged; null restores the default. */
export type ProfileChanges = Partial<Omit<Profile, "logo">> & {
  readonly logo?: (Logo & { readonly file: Buffer }) | null;
};

export const DEFAULT_PROFILE: Profile = {
  displayName: null,
  color: null,
  homeUrl: null,
  story: null,
  hiddenSections: [],
  showsCarbon: false,
  logo: null,
};

export const DISPLAY_NAME_CHARACTERS = 80;
export const STORY_CHARACTERS = 1200;
const HOME_URL_CHARACTERS = 500;

/** Control characters, also those that reverse the direction of text. */
const CONTROL = /[\p{Cc}\u202A-\u202E\u2066-\u2069]/u;
const CONTROL_IN_LINES = /[^\P{Cc}\t\n\r]|[\u202A-\u202E\u2066-\u2069]/u;

const isVisible = (given: string): boolean => given.trim() !== "";

export const displayName = () =>
  text(DISPLAY_NAME_CHARACTERS)
    .refine((given) => isVisible(given) && !CONTROL.test(given))
    .transform((given) => given.trim());

export const story = () =>
  text(STORY_CHARACTERS)
    .refine((given) => isVisible(given) && !CONTROL_IN_LINES.test(given))
    .transform((given) => given.replaceAll(/\r\n?/gu, "\n").trim());

export const color = () => z.string().transform(parseColor).pipe(z.string());

const isSafeUrl = (given: string): boolean => {
  const url = URL.parse(given);
  return (
    url !== null &&
    url.protocol === "https:" &&
    url.username === "" &&
    url.password === "" &&
    url.hostname.includes(".")
  );
};

/** A link of the public page. Pages that are not encrypted, and other schemes such as javascript:, are rejected. */
export const homeUrl = () =>
  text(HOME_URL_CHARACTERS)
    .refine(isSafeUrl)
    .transform((given) => new URL(given).href)
    .pipe(z.string().max(HOME_URL_CHARACTERS));

/** Names of sections, with commas between them. */
export const hiddenSections = () =>
  z
    .string()
    .transform((given) => [...new Set(given.split(",").map((name) => name.trim()))])
    .pipe(z.array(z.enum(HIDEABLE_SECTIONS)));

/** Returns the paragraphs of a story, whose lines belong together. */
export const paragraphsOf = (given: string): readonly string[] =>
  given
    .split(/\n[\t ]*\n/u)
    .map((paragraph) => paragraph.trim())
    .filter((paragraph) => paragraph !== "");
