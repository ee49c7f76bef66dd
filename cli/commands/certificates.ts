import type { Command } from "@commander-js/extra-typings";
import { z } from "zod";
import { CERTIFICATE_TOKEN } from "../../modules/dashboard/certificate.rules.ts";
import { revokeCertificate } from "../../modules/dashboard/manageCertificates.ts";
import { parserOf } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { say } from "../io.ts";
import { openChange, withAudit } from "../operator.ts";
import { printResult } from "../output/print.ts";

const parseCertificate = parserOf(
  z
    .string()
    .transform((given) => given.replace(/^.*\/certificate\//u, ""))
    .pipe(z.string().regex(CERTIFICATE_TOKEN)),
  "the URL of a certificate, or its last part",
);

export const addCertificateCommands = (certificate: Command, context: CliContext): void => {
  withAudit(
    certificate
      .command("revoke")
      .description("Revoke a certificate, so that its page no longer exists")
      .argument("<url>", "URL of the certificate, or its last part", parseCertificate),
  ).action(async (token, options) => {
    const { io } = context;
    const { recordId, isOfOrder } = await revokeCertificate(
      await openChange(context, options),
      token,
    );
    printResult(io, { record_id: recordId, is_of_order: isOfOrder });
    say(
      io,
      `Revoked the certificate of ${isOfOrder ? "the order with record" : "record"} ${recordId}. The URL ends within seconds; the next API request for the certificate returns another URL.`,
    );
  });
};
