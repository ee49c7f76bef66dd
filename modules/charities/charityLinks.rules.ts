import { z } from "zod";
import { text } from "../records/fields.rules.ts";
import { describeIssues, messageOfIssue } from "../../runtime/describeIssues.rules.ts";
import { EIN_MUST_BE, parseEin } from "./charities.rules.ts";
import type { Ein } from "./charities.rules.ts";

/** The website and the icon of a charity; null leaves what is stored, an empty one removes it. */
export type CharityLinks = {
  readonly ein: Ein;
  readonly website: string | null;
  readonly iconUrl: string | null;
};

const url = () =>
  text(2000)
    .refine(
      (given) => given === "" || (/^https?:\/\//u.test(given) && URL.canParse(given)),
      "must be an http:// or https:// URL, or empty",
    )
    .nullish();

const line = z.strictObject({
  ein: text(50).transform((given, context) => {
    const ein = parseEin(given);
    if (ein === null) {
      context.addIssue({ code: "custom", message: EIN_MUST_BE });
      return z.NEVER;
    }
    return ein;
  }),
  website: url(),
  icon_url: url(),
});

/** Parses a line of a file of links; a string says what is wrong with it. */
export const readLinksLine = (json: string): CharityLinks | string => {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return "not valid JSON";
  }
  const { success, data, error } = line.safeParse(value, { error: messageOfIssue });
  return success
    ? { ein: data.ein, website: data.website ?? null, iconUrl: data.icon_url ?? null }
    : describeIssues(error.issues, "field");
};
