import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { DEFAULT_PROFILE, PICTURE_TYPES, profileRow } from "./profile.rules.ts";
import type { ProfileChanges } from "./profile.rules.ts";
import { assignmentsOf, columnsOf, sql } from "../../db/sql.ts";
import { withCell } from "../records/cells.sql.ts";

const LOGO = sql.fragment`
  CASE WHEN logo_hash IS NOT NULL THEN
    json_build_object('hash', logo_hash, 'type', logo_type, 'width', logo_width, 'height', logo_height)
  END
`;

/** Returns an account's profile, which is the default one until an operator sets it. */
export const findProfile = async (db: CommonQueryMethods, accountId: string) =>
  (await db.maybeOne(sql.prepared("find_profile", profileRow)`
    SELECT ${columnsOf("profile", profileRow, { logo: LOGO })}
    FROM profile
    WHERE account_id = ${accountId}
  `)) ?? DEFAULT_PROFILE;

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
    INSERT INTO profile (account_id) VALUES (${accountId}) ON CONFLICT (account_id) DO NOTHING
  `);
  if (assignments !== null) {
    await transaction.query(sql.typeAlias("void")`
      UPDATE profile SET ${assignments} WHERE account_id = ${accountId}
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
