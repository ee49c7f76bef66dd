import { createReadStream } from "node:fs";
import { buffer } from "node:stream/consumers";
import {
  DISPLAY_NAME_CHARACTERS,
  HIDEABLE_SECTIONS,
  STORY_CHARACTERS,
  color,
  displayName,
  hiddenSections,
  homeUrl,
  story,
} from "../../modules/accounts/profile.rules.ts";
import type { Profile } from "../../modules/accounts/profile.rules.ts";
import { MAXIMUM_LOGO_BYTES, readLogo } from "../../modules/accounts/readLogo.ts";
import { orNone, parsePath, parserOf, parseSwitch } from "../arguments.ts";
import { unreadableFileError } from "../input/openInput.ts";
import { snakeCased } from "../output/print.ts";

/** Reads a logo. Of a file that has no end, it reads a little more than the maximum. */
export const readLogoFile = async (path: string) => {
  let file: Buffer;
  try {
    file = await buffer(createReadStream(path, { end: MAXIMUM_LOGO_BYTES }));
  } catch (error) {
    throw unreadableFileError(path, error);
  }
  return readLogo(file);
};

const parseSections = parserOf(
  hiddenSections(),
  `one or more of ${HIDEABLE_SECTIONS.join(", ")}, with commas between them`,
);

export const PROFILE_SETTINGS = {
  displayName: [
    "--display-name <name|none>",
    "name on public pages",
    orNone(parserOf(displayName(), `1 to ${DISPLAY_NAME_CHARACTERS} characters in one line`)),
  ],
  logo: [
    "--logo <file|none>",
    "PNG, JPEG or WebP picture for public pages, shown as it is",
    orNone(parsePath),
  ],
  color: [
    "--color <#rrggbb|none>",
    "color of public pages",
    orNone(parserOf(color(), "a color, such as #1c6b47")),
  ],
  homeUrl: [
    "--home-url <url|none>",
    "link on public pages, https only",
    orNone(
      parserOf(homeUrl(), "an https URL of at most 500 characters, without user name and password"),
    ),
  ],
  story: [
    "--story <text|none>",
    "a few plain sentences for the public page; an empty line starts a paragraph",
    orNone(parserOf(story(), `plain text of 1 to ${STORY_CHARACTERS} characters`)),
  ],
  hiddenSections: [
    "--hide <sections|none>",
    `sections that the public page leaves out: ${HIDEABLE_SECTIONS.join(", ")}`,
    (given: string) => orNone(parseSections)(given) ?? [],
  ],
  showsCarbon: ["--carbon <on|off>", "projected carbon on the public page", parseSwitch],
} as const;

export const presentProfile = ({ logo, ...profile }: Profile) => ({
  ...snakeCased(profile),
  logo: logo && { path: `/media/logos/${logo.hash}`, width: logo.width, height: logo.height },
});
