import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { DEFAULT_PROFILE, PICTURE_TYPES, profileFields } from "./profile.rules.ts";
import type { Profile, ProfileChanges } from "./profile.rules.ts";
import { assignmentsOf, columnsOf, sql } from "../../db/sql.ts";
import { withCell } from "../records/cells.sql.ts";

const storedProfile = profileFields.extend({
  logoHash: z.string().nullable(),
  logoType: z.enum(PICTURE_TYPES).nullable(),
  logoWidth: z.int().nullable(),
  logoHeight: z.int().nullable(),
});

const profileRow = storedProfile.transform(
  ({
    logoHash: hash,
    logoType: type,
    logoWidth: width,
    logoHeight: height,
    ...profile
  }): Profile => ({
    ...profile,
    logo: hash && type && width && height ? { hash, type, width, height } : null,
  }),
);

/** Returns an account's profile, which is the default one until an operator sets it. */
export const findProfile = async (db: CommonQueryMethods, accountId: string) =>
  (await db.maybeOne(sql.prepared("find_profile", profileRow)`
    SELECT ${columnsOf("profile", storedProfile)}
    FROM profile
    WHERE account_id = ${accountId}
  `)) ?? DEFAULT_PROFILE;

/** Changes an account's profile, creating a default one if there is none. */
export const updateProfile = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  { hiddenSections, logo, ...changes }: ProfileChanges,
) => {
  const assignments = assignmentsOf({
    ...changes,
    hiddenSections: hiddenSections && sql.array([...hiddenSections], "text"),
    ...(logo !== undefined && {
      logo: logo && sql.binary(logo.file),
      logoHash: logo && withCell(logo.hash),
      logoType: logo && logo.type,
      logoWidth: logo && logo.width,
      logoHeight: logo && logo.height,
    }),
  });
  await transaction.query(sql.typeAlias("void")`
    INSERT INTO profile (account_id)
    VALUES (${accountId})
    ON CONFLICT (account_id) DO NOTHING
  `);
  if (assignments !== null) {
    await transaction.query(sql.typeAlias("void")`
      UPDATE profile
      SET ${assignments}
      WHERE account_id = ${accountId}
    `);
  }
};

const logoRow = z.strictObject({
  hash: z.string(),
  type: z.enum(PICTURE_TYPES),
  file: z.instanceof(Buffer),
});

/** Returns the files of logos by their hashes. Unknown ones are absent. */
export const findLogoFiles = async (db: CommonQueryMethods, hashes: readonly string[]) => {
  const rows = await db.any(sql.type(logoRow)`
    SELECT DISTINCT ON (logo_hash) logo_hash AS hash, logo_type AS type, logo AS file
    FROM profile
    WHERE logo_hash = ANY(${sql.array(hashes, "text")})
  `);
  return new Map(rows.map((row) => [row.hash, row]));
};
