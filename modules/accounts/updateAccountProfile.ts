import type { DatabaseTransactionConnection } from "slonik";
import { deleteUnusedLogo, insertLogo, lockProfile, updateProfile } from "./profiles.sql.ts";
import type { Profile, NewLogo } from "./profile.rules.ts";

/** Absent settings stay unchanged; null restores the default. */
export type ProfileChanges = Partial<Omit<Profile, "logo">> & { readonly logo?: NewLogo | null };

/** Returns the changes as the audit log records them: a logo by its hash. */
export const describeProfileChanges = ({ logo, ...changes }: ProfileChanges): object => ({
  ...changes,
  ...(logo === undefined ? {} : { logo: logo?.hash ?? null }),
});

/** Changes the profile of an account, in the caller's transaction. A logo that no profile has any more is deleted. */
export const updateAccountProfile = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
  changes: ProfileChanges,
): Promise<void> => {
  const before = await lockProfile(transaction, accountId);
  if (changes.logo) {
    await insertLogo(transaction, changes.logo);
  }
  const after: Profile = { ...before, ...changes };
  await updateProfile(transaction, accountId, after);
  if (before.logo !== null && before.logo.hash !== after.logo?.hash) {
    await deleteUnusedLogo(transaction, before.logo.hash);
  }
};
