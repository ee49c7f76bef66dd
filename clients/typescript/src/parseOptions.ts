import { ImpactError } from "./errors.ts";

/**
 * Returns the URL before all paths, without a slash at its end.
 * @throws ImpactError that repeats nothing of the URL, which may have a password in it
 */
export const parseBaseUrl = (given: string | URL): string => {
  const text = String(given);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/u.test(url.protocol)) {
    throw new ImpactError("baseUrl: must be an absolute http or https URL");
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new ImpactError("baseUrl: must have no user, password, query or fragment");
  }
  return `${url.origin}${url.pathname.replace(/\/+$/u, "")}`;
};

/**
 * Checks the value of a header here, because the error of `fetch` would repeat it.
 * @throws ImpactError
 */
export const checkHeaderValue = (name: string, value: string): string => {
  if (!/^[\u0021-\u007E]+$/u.test(value)) {
    throw new ImpactError(`${name}: must be visible ASCII characters without spaces`);
  }
  return value;
};

/**
 * Refuses what is left of the options after the known ones were taken, because a program in JavaScript may misspell one.
 * @param known names the known ones, for the message
 * @throws ImpactError
 */
export const refuseUnknown = (rest: object, known: string): void => {
  const [name] = Object.keys(rest);
  if (name !== undefined) {
    throw new ImpactError(`${name}: unknown option; the options are ${known}`);
  }
};

/**
 * Checks the idempotency key of a write.
 * @param suffix what the longest key of the items of a batch has after it
 * @throws ImpactError
 */
export const checkKey = (key: string, suffix = ""): void => {
  const maximum = 1000 - suffix.length;
  // oxlint-disable-next-line no-control-regex -- a header cannot have them.
  const isWellFormed = key !== "" && key.trim() === key && !/[\u0000-\u001F\u007F]/u.test(key);
  // The service counts characters, of which some have two UTF-16 units.
  if (!isWellFormed || Array.from(key).length > maximum) {
    const reason = suffix === "" ? "" : ` in this batch, whose items add "${suffix}"`;
    throw new ImpactError(
      `idempotencyKey: must be 1 to ${maximum} characters${reason}, without control characters, not beginning or ending with a space`,
    );
  }
};

/** Returns an idempotency key as the text of a header: its UTF-8 bytes, which is how the service reads it. */
export const keyHeader = (key: string): string => {
  checkKey(key);
  return Array.from(new TextEncoder().encode(key), (byte) => String.fromCharCode(byte)).join("");
};

/** Writes query parameters: undefined and null are left out, and what is not a text is JSON. */
export const queryString = (query: object | undefined): string => {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null) {
      parameters.set(name, typeof value === "string" ? value : JSON.stringify(value));
    }
  }
  const text = parameters.toString();
  return text === "" ? "" : `?${text}`;
};
