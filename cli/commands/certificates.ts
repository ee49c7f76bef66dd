import { z } from "zod";
import { CERTIFICATE_TOKEN } from "../../modules/dashboard/certificate.rules.ts";
import { revokeCertificate } from "../../modules/dashboard/manageCertificates.ts";
import { parserOf } from "../arguments.ts";
import { addChange } from "../command.ts";
import type { Define } from "../command.ts";

const parseCertificate = parserOf(
  z
    .string()
    .transform((given) => given.replace(/^.*\/certificate\//u, ""))
    .pipe(z.string().regex(CERTIFICATE_TOKEN)),
  "the URL of a certificate, or its last part",
);

export const addCertificateCommands: Define = (certificate, cli) => {
  addChange(certificate, "revoke", "Revoke a certificate, so that its page no longer exists")
    .argument("<url>", "URL of the certificate, or its last part", parseCertificate)
    .action(async (token, options) => {
      const { recordId, isOfOrder } = await revokeCertificate(await cli.openChange(options), token);
      cli.printResult({ record_id: recordId, is_of_order: isOfOrder });
      cli.say(
        `Revoked the certificate of ${isOfOrder ? "the order with record" : "record"} ${recordId}. The URL ends within seconds; the next API request for the certificate returns another URL.`,
      );
    });
};
