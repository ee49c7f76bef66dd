import { timingSafeEqual, createHmac } from "node:crypto";

/** Compares a signature with the expected one. The time does not say how much of it is right. */
const equalSignatures = (given: string, expected: string): boolean => {
  const [one, two] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === two.length && timingSafeEqual(one, two);
};

/** The tolerated difference between the clocks. Older messages may be replayed ones. */
const TOLERANCE_SECONDS = 300;

export const signCallback = (secret: string, body: string, unixSeconds: number): string =>
  createHmac("sha256", secret).update(`${unixSeconds}.${body}`).digest("hex");

/**
 * Verifies a header of the form `t=<unix seconds>,v1=<signature>`. There may be several `v1`, and several
 * secrets, while a secret is replaced.
 * @returns the problem; null if the signature is valid
 */
export const findSignatureProblem = (
  header: string | undefined,
  {
    secrets,
    body,
    now,
  }: { readonly secrets: readonly string[]; readonly body: string; readonly now: Date },
): string | null => {
  if (header === undefined || header === "") {
    return "missing Planting-Signature header";
  }
  const parts = header
    .slice(0, 1000)
    .split(",")
    .map((part) => part.trim().split("="));
  const time = parts.find(([name]) => name === "t")?.[1] ?? "";
  const signatures = parts.flatMap(([name, value]) =>
    name === "v1" && value !== undefined && /^[0-9a-f]{64}$/u.test(value) ? [value] : [],
  );
  if (!/^\d{1,12}$/u.test(time) || signatures.length === 0) {
    return "malformed Planting-Signature header";
  }
  const expected = secrets.map((secret) => signCallback(secret, body, Number(time)));
  if (!expected.some((one) => signatures.some((signature) => equalSignatures(signature, one)))) {
    return "invalid signature";
  }
  return Math.abs(now.getTime() / 1000 - Number(time)) > TOLERANCE_SECONDS
    ? "signature is too old"
    : null;
};

export const signPlatformRequest = (secret: string, body: string): string =>
  createHmac("sha256", secret).update(body).digest("base64");

/** Returns whether one of the secrets has signed the body. There are two while a secret is replaced. */
export const isSignedByPlatform = (
  signature: string,
  { secrets, body }: { readonly secrets: readonly string[]; readonly body: string },
): boolean =>
  // Every secret is tried, so that the time does not say which one is right.
  secrets.filter((secret) => equalSignatures(signature, signPlatformRequest(secret, body))).length >
  0;
