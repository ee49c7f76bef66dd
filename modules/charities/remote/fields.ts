import { z } from "zod";
import { parseEin } from "../charities.rules.ts";

const MAXIMUM_LENGTH = 10_000;

/** A text that is safe to store and show: well-formed and of bounded length; empty if missing. */
export const looseText = () =>
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

/** A name or an id, which every charity must have. */
export const requiredText = () => looseText().refine((text) => text !== "", "must not be empty");

/** An EIN with or without its dash; null for anything else, such as a foreign number. */
export const looseEin = () =>
  z
    .string()
    .nullish()
    .transform((text) => (text ? parseEin(text) : null));

/** An HTTP URL; empty if missing or of another scheme. */
export const looseUrl = () =>
  looseText().transform((text) => {
    const url = text === "" || /^[a-z][a-z0-9+.-]*:/iu.test(text) ? text : `https://${text}`;
    const parsed = URL.parse(url);
    return parsed?.protocol === "https:" || parsed?.protocol === "http:" ? url : "";
  });

/** Whether an id can be a path segment without changing the path. */
export const isPathSafe = (id: string): boolean => /^[\w~-][\w.~-]{0,199}$/u.test(id);
