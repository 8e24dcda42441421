/** Reads files of the package for browsers. Each has Brotli, the smallest encoding; others are made at the first request for them. */
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { brotliDecompress, gzip } from 'node:zlib'

type Body = Buffer<ArrayBuffer>

const decompressed: (file: Body) => Promise<Body> = promisify(brotliDecompress)
const gzipped: (file: Body) => Promise<Body> = promisify(gzip)

const ENCODINGS = {
  br: async (file: Body) => file,
  gzip: async (file: Body) => gzipped(await decompressed(file)),
  identity: decompressed,
}
type Encoding = keyof typeof ENCODINGS

export interface PackedFile {
  readonly body: Body
  readonly encoding: Encoding
  /** `vary` and `content-encoding`. */
  readonly headers: Record<string, string>
}

const bodies = new Map<string, Promise<Body>>()

/**
 * A file in the best encoding that the client accepts. Rejects if it does not exist.
 *
 * @param path without `.br`
 */
export async function packedFile(path: string, acceptEncoding: string): Promise<PackedFile> {
  const encoding = encodingOf(acceptEncoding)
  const key = `${path}:${encoding}`
  let body = bodies.get(key)
  if (!body) {
    body = readFile(`${path}.br`).then(ENCODINGS[encoding])
    body.catch(() => bodies.delete(key))
    bodies.set(key, body)
  }
  const headers = { vary: 'accept-encoding', ...(encoding === 'identity' ? {} : { 'content-encoding': encoding }) }
  return { body: await body, encoding, headers }
}

/** RFC 9110, 12.5.3. Without the header the response is not compressed, which every client can read. */
function encodingOf(acceptEncoding: string): Encoding {
  const weights = new Map(
    acceptEncoding.split(',').map((item) => {
      const [name = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase())
      const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice('q='.length) ?? '1'
      return [name, Number(weight)]
    }),
  )
  const isAccepted = (name: string) => (weights.get(name) ?? weights.get('*') ?? 0) > 0
  return (['br', 'gzip'] as const).find(isAccepted) ?? 'identity'
}
