import { z } from "zod";
import { parseEin } from "../../../domain/charities/charities.ts";

const LONGEST = 10_000;

/** A text as it may be kept and shown: well-formed, of bounded length; empty where there is none. */
export const looseText = () =>
  z
    .string()
    .nullish()
    .transform((text) =>
      (text ?? "").replaceAll("\0", "").toWellFormed().trim().slice(0, LONGEST).toWellFormed(),
    );

/** A name or an id, without which a charity is none. */
export const requiredText = () => looseText().refine((text) => text !== "", "must not be empty");

/** An EIN in whichever form; null where there is none or something else, as for foreign charities. */
export const looseEin = () =>
  z
    .string()
    .nullish()
    .transform((text) => (text ? parseEin(text) : null));

/** A web address; empty where there is none that a browser would open. */
export const looseUrl = () =>
  looseText().transform((text) => {
    const url = text === "" || /^[a-z][a-z0-9+.-]*:/iu.test(text) ? text : `https://${text}`;
    const parsed = URL.parse(url);
    return parsed?.protocol === "https:" || parsed?.protocol === "http:" ? url : "";
  });

/** An id that can be a part of a path and lead nowhere else. */
export const isPathSafe = (id: string): boolean => /^[\w~-][\w.~-]{0,199}$/u.test(id);
