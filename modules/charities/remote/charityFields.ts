import { z } from "zod";
import { parseEin } from "../charities.rules.ts";
import type { Charity } from "../charities.rules.ts";

const MAXIMUM_LENGTH = 10_000;

/** A text that is safe to store and show: well-formed and of bounded length; empty if missing. */
const looseText = () =>
  z
    .string()
    .nullish()
    .transform((text) =>
      (text ?? "")
        .replaceAll("\0", "")
        .toWellFormed()
        .trim()
        .slice(0, MAXIMUM_LENGTH)
        .toWellFormed(),
    );

const requiredText = () => looseText().refine((text) => text !== "", "must not be empty");

/** An HTTP URL; empty if missing or of another scheme. */
const looseUrl = () =>
  looseText().transform((text) => {
    const url = text === "" || /^[a-z][a-z0-9+.-]*:/iu.test(text) ? text : `https://${text}`;
    const parsed = URL.parse(url);
    return parsed?.protocol === "https:" || parsed?.protocol === "http:" ? url : "";
  });

const charity = z.object({
  nonprofitId: requiredText(),
  name: requiredText(),
  // With or without its dash; null for anything else, such as a foreign number.
  ein: z
    .string()
    .nullish()
    .transform((text) => (text ? parseEin(text) : null)),
  description: looseText(),
  website: looseUrl(),
  iconUrl: looseUrl(),
});

const anyFields = z.record(z.string(), z.unknown());
type Fields = Readonly<z.output<typeof anyFields>>;

/**
 * A charity in a provider's own format.
 * @param rename returns the provider's values by our names
 */
export const charityOf = (
  rename: (fields: Fields) => Readonly<Record<keyof Charity, unknown>>,
): z.ZodType<Charity> =>
  z.preprocess((given) => {
    const { data } = anyFields.safeParse(given);
    return data && rename(data);
  }, charity);
