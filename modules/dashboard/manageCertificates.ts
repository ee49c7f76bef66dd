import { randomBytes } from "node:crypto";
import type { CommonQueryMethods } from "slonik";
import { findOwnDonation } from "../charities/donations.sql.ts";
import {
  findCertificate,
  getOrInsertCertificate,
  insertCertificateItems,
  listOrderRecords,
  revokeCertificate as revoke,
} from "./certificates.sql.ts";
import type { CertifiedRecord } from "./certificates.sql.ts";
import { findOwnRegistration } from "../registrations/registrations.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { CERTIFIED_KINDS, MAXIMUM_CERTIFIED_RECORDS } from "./certificate.rules.ts";
import type { CertifiedKind } from "./certificate.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import type { Context } from "../../runtime/context.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";

/** 128 random bits cannot be guessed. */
const TOKEN_BYTES = 16;

const newToken = (): string => randomBytes(TOKEN_BYTES).toString("hex");

const findRecord = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  id: string,
  kind: CertifiedKind,
): Promise<CertifiedRecord | null> => {
  const found = await (kind === "donation"
    ? findOwnDonation(db, owner, id)
    : findOwnRegistration(db, { ...owner, kind }, id));
  return found && { id: found.id, kind };
};

/**
 * Returns the token of a record's public certificate, creating it on first use. It stays the same until it is revoked.
 * @param kind of records that were imported with the same id, the one that is meant
 * @throws DomainError record_not_found
 */
export const getCertificateToken = async (
  { db, clock }: Context,
  { accountId, mode }: AccountMode,
  id: string,
  kind: CertifiedKind | null,
): Promise<string> => {
  for (const candidate of kind === null ? CERTIFIED_KINDS : [kind]) {
    const record = await findRecord(db, { accountId, mode }, id, candidate);
    if (record) {
      // Most requests are for a certificate that exists, and a read writes no row.
      const known = await findCertificate(db, [record.id], false);
      if (known) {
        return known.token;
      }
      const certificate = { token: newToken(), accountId, record, isOfOrder: false };
      return getOrInsertCertificate(db, { ...certificate, createdAt: clock.now() });
    }
  }
  throw new DomainError("record_not_found", "failed to find registration or donation");
};

/**
 * Returns the token of the public certificate of a store's order, creating it on first use. Records that were
 * added to the order since are added to it.
 * @throws DomainError record_not_found, or request_invalid if the order has too many records
 */
export const getOrderCertificateToken = async (
  { db, clock }: Context,
  { accountId, mode }: AccountMode,
  orderId: string,
): Promise<string> => {
  const isNamed = /[^#]/u.test(orderId);
  const records = isNamed ? await listOrderRecords(db, { accountId, mode }, orderId) : [];
  const [record, ...further] = records;
  if (!record) {
    throw new DomainError("record_not_found", "failed to find order");
  }
  if (records.length > MAXIMUM_CERTIFIED_RECORDS) {
    throw invalidRequest(
      `order_id: has more than ${MAXIMUM_CERTIFIED_RECORDS} records; request the certificates of its records`,
    );
  }
  // Older records may have been imported since the certificate was created, so its own need not be the first.
  const recordIds = records.map(({ id }) => id);
  const known = await findCertificate(db, recordIds, true);
  if (known) {
    const added = records.filter(({ id }) => !known.recordIds.includes(id));
    if (added.length > 0) {
      await insertCertificateItems(db, known.token, added);
    }
    return known.token;
  }
  return db.transaction(async (transaction) => {
    const certificate = { token: newToken(), accountId, record, isOfOrder: true };
    const token = await getOrInsertCertificate(transaction, {
      ...certificate,
      createdAt: clock.now(),
    });
    if (further.length > 0) {
      await insertCertificateItems(transaction, token, further);
    }
    return token;
  });
};

/**
 * Revokes a certificate's URL. Its page is gone in every process within seconds.
 * @returns the record that it was of; of an order, the first one when the certificate was created
 * @throws DomainError record_not_found if there is none with the token, or it was revoked before
 */
export const revokeCertificate = (
  { db, clock, actor }: OperatorContext,
  token: string,
): Promise<{ readonly recordId: string; readonly isOfOrder: boolean }> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const revoked = await revoke(transaction, token, now);
    if (revoked === null) {
      throw new DomainError("record_not_found", "certificate not found, or already revoked");
    }
    const { accountId, recordId, isOfOrder } = revoked;
    await recordAction(transaction, actor, now, {
      action: "certificate.revoke",
      accountId,
      subject: recordId,
      details: { isOfOrder },
    });
    return { recordId, isOfOrder };
  });
