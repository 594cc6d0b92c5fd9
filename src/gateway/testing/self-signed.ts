// A certificate for 127.0.0.1 that signs itself, made anew for each test: the X.509 of RFC 5280 with nothing optional but
// the name's extension, written as DER by hand, since Node reads certificates but makes none.
import { generateKeyPairSync, randomBytes, sign } from "node:crypto";

export function selfSigned(): { readonly cert: string; readonly key: string } {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const ecdsaWithSha256 = der(0x30, der(0x06, Buffer.from("2a8648ce3d040302", "hex")));
  const name = der(
    0x30,
    der(0x31, der(0x30, der(0x06, Buffer.from("550403", "hex")), der(0x0c, Buffer.from("127.0.0.1")))),
  );
  const alternative = der(0x30, der(0x87, Buffer.from([127, 0, 0, 1])));
  const extension = der(0x30, der(0x06, Buffer.from("551d11", "hex")), der(0x04, alternative));
  const toSign = der(
    0x30,
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    name,
    der(0x30, der(0x17, Buffer.from("200101000000Z")), der(0x17, Buffer.from("490101000000Z"))),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, der(0x30, extension)),
  );
  const signature = Buffer.concat([Buffer.from([0]), sign("sha256", toSign, privateKey)]);
  const certificate = der(0x30, toSign, ecdsaWithSha256, der(0x03, signature));
  const lines = certificate.toString("base64").match(/.{1,64}/g) as string[];
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
  };
}

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size =
    length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
