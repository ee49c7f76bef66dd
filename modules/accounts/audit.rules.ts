/** What the audit log records. A command's entry has the command's name. */
export const AUDIT_ACTIONS = [
  "org.create",
  "org.update",
  "key.issue",
  "key.revoke",
  "store.create",
  "store.update",
  "store.uninstall",
  "store.reinstall",
  "store.topup",
  "store.adjust",
  "store.forget",
  "store.export_customer",
  "refund.registration",
  "refund.donation",
  "usage.retry",
  "usage.close",
  "usage.hold",
  "usage.resume",
  "certificate.revoke",
  "charity.import",
  "evidence.record",
  "evidence.withdraw",
  "import.history",
  "import.key",
  "import.slug",
  "webhook.create",
  "webhook.update",
  "webhook.delete",
  "webhook.rotate",
  "webhook.disable",
  "webhook.ping",
  "webhook.recover",
  "export",
  "find",
  "migrate",
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

export const ACTORS = ["operator", "platform", "service"] as const;

export type Actor =
  | {
      readonly kind: "operator";
      readonly name: string;
      /** Null if the operator gave none. */
      readonly reason: string | null;
    }
  | {
      readonly kind: "platform";
      /** The HMAC of the request's body, by which a repeated request is recognized. */
      readonly signature: string;
    }
  | { readonly kind: "service" };

export const SERVICE: Actor = { kind: "service" };
