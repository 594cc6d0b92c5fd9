// Request bodies as bytes: whatever content type a client writes, decoded where it compressed them. The limit holds for
// what comes over the wire and for what it unpacks to, so that a bomb costs no more than an honest body.
import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate, inflateRaw } from "node:zlib";
import { Decompress } from "fzstd";
import type { FastifyInstance } from "fastify";
import { CoppiceError, messageOf } from "../errors.ts";

const ENCODINGS = "gzip, br, deflate, zstd, identity";

type Decoder = (bytes: Buffer, limit: number) => Promise<Buffer> | Buffer;

const DECODERS: Readonly<Record<string, Decoder>> = {
  gzip: (bytes, limit) => promisify(gunzip)(bytes, { maxOutputLength: limit }),
  "x-gzip": (bytes, limit) => promisify(gunzip)(bytes, { maxOutputLength: limit }),
  br: (bytes, limit) => promisify(brotliDecompress)(bytes, { maxOutputLength: limit }),
  // RFC 9110 means zlib's format; some clients send the bare one.
  deflate: (bytes, limit) =>
    promisify(looksLikeZlib(bytes) ? inflate : inflateRaw)(bytes, { maxOutputLength: limit }),
  zstd: decodeZstd,
};

/** Every content type is taken as bytes, and what they hold is told by the route. */
export function takeBodiesAsBytes(app: FastifyInstance, limit: number): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "buffer", bodyLimit: limit }, (request, body, done) => {
    const bytes = body as Buffer;
    const encoding = request.headers["content-encoding"]?.trim().toLowerCase();
    if (encoding !== undefined && encoding !== "" && encoding !== "identity") {
      return decodeBody(bytes, encoding, limit);
    }
    // Nearly every body: no promise for it.
    done(null, bytes);
    return undefined;
  });
}

/**
 * The decoded body. Throws `unsupported_media_type` for an encoding that nobody here knows, `too_large` past the limit
 * (in bytes), `invalid_request` for bytes that are not what the encoding says.
 */
export async function decodeBody(bytes: Buffer, encoding: string, limit: number): Promise<Buffer> {
  const decode = Object.hasOwn(DECODERS, encoding) ? DECODERS[encoding] : undefined;
  if (decode === undefined) {
    throw new CoppiceError(
      "unsupported_media_type",
      `content-encoding is ${encoding}; it must be one of ${ENCODINGS}`,
      { param: "content-encoding" },
    );
  }
  try {
    return await decode(bytes, limit);
  } catch (error) {
    if (error instanceof CoppiceError) throw error;
    if ((error as { readonly code?: unknown }).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(limit);
    throw new CoppiceError("invalid_request", `the body is no ${encoding}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

function looksLikeZlib(bytes: Buffer): boolean {
  return bytes.length >= 2 && ((bytes[0] as number) & 0x0f) === 8 && bytes.readUInt16BE(0) % 31 === 0;
}

function tooLarge(limit: number): CoppiceError {
  return new CoppiceError("too_large", `the body unpacks to more than ${limit} bytes, which is the limit`);
}

/** In pieces, so that what a bomb unpacks to is noticed before it is there. */
function decodeZstd(bytes: Buffer, limit: number): Buffer {
  const pieces: Uint8Array[] = [];
  let length = 0;
  const decompress = new Decompress((piece) => {
    length += piece.length;
    if (length > limit) throw tooLarge(limit);
    pieces.push(piece);
  });
  const step = 64 * 1024;
  for (let at = 0; at < bytes.length; at += step) {
    decompress.push(bytes.subarray(at, at + step), at + step >= bytes.length);
  }
  return Buffer.concat(pieces, length);
}
