import { readFileSync } from "node:fs";

/** The settings whose value may be in a file instead, which a setting with the suffix `_FILE` names. */
export const SECRET_SETTING_NAMES = [
  "DATABASE_URL",
  "DATABASE_OWNER_URL",
  "STRIPE_SECRET_KEY",
  "STRIPE_WEBHOOK_SECRET",
  "EVERYORG_API_KEY",
  "CHANGE_PUBLIC_KEY",
  "CHANGE_SECRET_KEY",
  "PLEDGE_API_KEY",
  "STORE_PLATFORM_SECRET",
  "PLANTING_CALLBACK_SECRET",
  "TREEMAPPER_API_KEY",
] as const;

type SecretFiles = {
  readonly secrets: Readonly<Record<string, string>>;
  readonly faults: readonly string[];
};

/** Reads the secrets that are in files, without the line feed at the end. A fault is a line that says what to do. */
export const readSecretFiles = (
  given: Readonly<Record<string, string | undefined>>,
): SecretFiles => {
  const secrets: Record<string, string> = {};
  const faults: string[] = [];
  for (const name of SECRET_SETTING_NAMES) {
    const path = given[`${name}_FILE`];
    if (path !== undefined && given[name] !== undefined) {
      faults.push(`${name} and ${name}_FILE are both set; set only one of them`);
    } else if (path !== undefined) {
      try {
        secrets[name] = readFileSync(path, "utf8").replace(/\r?\n$/u, "");
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        faults.push(`${name}_FILE must be a file that can be read: ${reason}`);
      }
    }
  }
  return { secrets, faults };
};
