import { createReadStream } from "node:fs";
import { buffer } from "node:stream/consumers";
import type { Command, OptionValues } from "@commander-js/extra-typings";
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
import type {
  HideableSection,
  Profile,
  ProfileChanges,
} from "../../modules/accounts/profile.rules.ts";
import { MAXIMUM_LOGO_BYTES, readLogo } from "../../modules/accounts/readLogo.ts";
import { NONE, nullIfNone, onlyGiven, orNone, parseSwitch, parserOf } from "../arguments.ts";
import type { OrNone } from "../arguments.ts";
import { unreadableFileError } from "../input/openInput.ts";

/** Reads a logo. Of a file that has no end, it reads a little more than the maximum. */
const readLogoFile = async (path: string) => {
  let file: Buffer;
  try {
    file = await buffer(createReadStream(path, { end: MAXIMUM_LOGO_BYTES }));
  } catch (error) {
    throw unreadableFileError(path, error);
  }
  return readLogo(file);
};

export type ProfileOptions = {
  readonly displayName?: OrNone<string>;
  readonly logo?: OrNone<string>;
  readonly color?: OrNone<string>;
  readonly homeUrl?: OrNone<string>;
  readonly story?: OrNone<string>;
  readonly hide?: OrNone<HideableSection[]>;
  readonly carbon?: boolean;
};

const parseDisplayName = parserOf(
  displayName(),
  `1 to ${DISPLAY_NAME_CHARACTERS} characters in one line`,
);
const parseColor = parserOf(color(), "a color, such as #1c6b47");
const parseHomeUrl = parserOf(
  homeUrl(),
  "an https URL of at most 500 characters, without user name and password",
);
const parseStory = parserOf(story(), `plain text of 1 to ${STORY_CHARACTERS} characters`);
const parseSections = parserOf(
  hiddenSections(),
  `one or more of ${HIDEABLE_SECTIONS.join(", ")}, with commas between them`,
);

/** Adds the options that set what an organization's public pages say about it. */
export const addProfileOptions = <
  Args extends unknown[],
  Options extends OptionValues,
  Global extends OptionValues,
>(
  command: Command<Args, Options, Global>,
) =>
  command
    .option("--display-name <name|none>", "name on public pages", orNone(parseDisplayName))
    .option("--logo <file|none>", "PNG, JPEG or WebP picture for public pages, shown as it is")
    .option("--color <#rrggbb|none>", "color of public pages", orNone(parseColor))
    .option("--home-url <url|none>", "link on public pages, https only", orNone(parseHomeUrl))
    .option(
      "--story <text|none>",
      "a few plain sentences for the public page; an empty line starts a paragraph",
      orNone(parseStory),
    )
    .option(
      "--hide <sections|none>",
      `sections that the public page leaves out: ${HIDEABLE_SECTIONS.join(", ")}`,
      orNone(parseSections),
    )
    .option("--carbon <on|off>", "projected carbon on the public page", parseSwitch);

/** Returns the changes that the options ask for, or null. */
export const readProfileChanges = async (
  options: ProfileOptions,
): Promise<ProfileChanges | null> => {
  const { displayName: name, logo, color: given, homeUrl: home, story: newStory, hide } = options;
  const changes: ProfileChanges = onlyGiven({
    displayName: nullIfNone(name),
    color: nullIfNone(given),
    homeUrl: nullIfNone(home),
    story: nullIfNone(newStory),
    hiddenSections: hide === NONE ? [] : hide,
    showsCarbon: options.carbon,
    logo: logo === undefined || logo === NONE ? nullIfNone(logo) : await readLogoFile(logo),
  });
  return Object.keys(changes).length === 0 ? null : changes;
};

/** A profile as programs read it. */
export const presentProfile = ({ logo, ...profile }: Profile) => ({
  display_name: profile.displayName,
  color: profile.color,
  home_url: profile.homeUrl,
  story: profile.story,
  hidden_sections: profile.hiddenSections,
  shows_carbon: profile.showsCarbon,
  logo: logo && { path: `/media/logos/${logo.hash}`, width: logo.width, height: logo.height },
});
