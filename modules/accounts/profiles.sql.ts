import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { DEFAULT_PROFILE, HIDEABLE_SECTIONS } from "./profile.rules.ts";
import type { Logo, Profile } from "./profile.rules.ts";
import { sql } from "../../db/sql.ts";

const profileRow = z
  .strictObject({
    displayName: z.string().nullable(),
    color: z.string().nullable(),
    homeUrl: z.string().nullable(),
    story: z.string().nullable(),
    hiddenSections: z.array(z.enum(HIDEABLE_SECTIONS)),
    logoHash: z.string().nullable(),
    logoWidth: z.int().nullable(),
    logoHeight: z.int().nullable(),
  })
  .transform(({ logoHash, logoWidth, logoHeight, ...profile }): Profile => ({
    ...profile,
    logo:
      logoHash === null || logoWidth === null || logoHeight === null
        ? null
        : { hash: logoHash, width: logoWidth, height: logoHeight },
  }));

/** Returns an account's profile, which is the default one until an operator sets it. */
export const findProfile = async (db: CommonQueryMethods, accountId: string): Promise<Profile> =>
  (await db.maybeOne(sql.prepared("find_profile", profileRow)`
    SELECT
      profile.display_name AS "displayName",
      profile.color,
      profile.home_url AS "homeUrl",
      profile.story,
      profile.hidden_sections AS "hiddenSections",
      logo.hash AS "logoHash",
      logo.width AS "logoWidth",
      logo.height AS "logoHeight"
    FROM profile
    LEFT JOIN logo ON logo.hash = profile.logo_hash
    WHERE profile.account_id = ${accountId}
  `)) ?? DEFAULT_PROFILE;

/** Locks an account's profile until the transaction ends, creating a default one if there is none. */
export const lockProfile = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
): Promise<Profile> => {
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO profile (account_id)
    VALUES (${accountId})
    ON CONFLICT (account_id) DO UPDATE SET account_id = excluded.account_id
  `);
  return findProfile(transaction, accountId);
};

/** Replaces an account's profile. Its logo must be stored already. */
export const updateProfile = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  profile: Profile,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    UPDATE profile
    SET
      display_name = ${profile.displayName},
      color = ${profile.color},
      home_url = ${profile.homeUrl},
      story = ${profile.story},
      hidden_sections = ${sql.array([...profile.hiddenSections], "text")},
      logo_hash = ${profile.logo?.hash ?? null}
    WHERE account_id = ${accountId}
  `);
};

export const insertLogo = async (
  transaction: DatabaseTransactionConnection,
  { hash, width, height, png }: Logo & { readonly png: Buffer },
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO logo (hash, width, height, png)
    VALUES (${hash}, ${width}, ${height}, ${sql.binary(png)})
    ON CONFLICT (hash) DO NOTHING
  `);
};

/** Deletes a logo unless a profile has it. */
export const deleteUnusedLogo = async (
  transaction: DatabaseTransactionConnection,
  hash: string,
): Promise<void> => {
  await transaction.query(sql.typeAlias("void")`
    DELETE FROM logo
    WHERE hash = ${hash} AND NOT EXISTS (SELECT FROM profile WHERE profile.logo_hash = logo.hash)
  `);
};

const storedLogoRow = z.strictObject({ hash: z.string(), png: z.instanceof(Buffer) });

/** Returns the files of logos by their hashes. Unknown ones are absent. */
export const findLogoFiles = async (
  db: CommonQueryMethods,
  hashes: readonly string[],
): Promise<ReadonlyMap<string, Buffer>> => {
  const rows = await db.any(sql.type(storedLogoRow)`
    SELECT hash, png
    FROM logo
    WHERE hash = ANY(${sql.array(hashes, "text")})
  `);
  return new Map(rows.map(({ hash, png }) => [hash, png]));
};
