/**
 * One archive on its way into S3-compatible storage. What fits into one part is one object put at once; all else goes in parts, two
 * on the way at a time while the next is gathered, and is an object when the storage has been told of the last:
 *
 *   begun ──► parts ──► completed      an object, at once; what was there is replaced
 *     │         │           │
 *     └─────────┴─ failed ──┴──► taken back at the server, before `upload` throws
 *
 * Parts on the way are cut off when something fails. What begins, ends or puts an object is not: its answer must be known. Where the
 * answer is lost all the same, the object itself says whose it is: each bears the mark of the upload that made it.
 *
 * The SDK's own `Upload` (lib-storage) is not used: when it is aborted, it throws at once and takes back later or not at all.
 */
import { randomUUID } from 'node:crypto'
import type { CompletedPart, S3Client } from '@aws-sdk/client-s3'
import { ByteSource } from '../../kernel/base/byte-source.ts'
import type { WriteOptions } from '../../tenants/transfers/archive/port.ts'
import { abortable } from './abortable.ts'
import { withS3Errors } from './s3-errors.ts'

const MIB = 1024 * 1024
const SMALLEST_PART = 8 * MIB
const ON_THE_WAY = 2
/** How long a server may take to say what became of an upload that has failed. */
const AFTERWARDS_MS = 15_000
const MARK = 'tenantry-upload'
/** So many parts of the first size; S3 takes 10,000. From then on each thousand is twice as large as the one before. */
const EQUAL_PARTS = 5_000
const NEXT_PARTS = 1_000

export type Sdk = typeof import('@aws-sdk/client-s3')

export interface UploadTarget {
  readonly sdk: Sdk
  readonly client: S3Client
  /** Of the object. */
  readonly input: {
    readonly Bucket: string
    readonly Key: string
    readonly ServerSideEncryption?: 'AES256' | 'aws:kms' | undefined
    readonly SSEKMSKeyId?: string | undefined
  }
}

export async function upload(
  { sdk, client, input }: UploadTarget,
  chunks: AsyncIterable<Uint8Array>,
  { signal, estimatedBytes }: WriteOptions,
): Promise<void> {
  const { Bucket, Key } = input
  const mark = randomUUID()
  const marked = { ...input, Metadata: { [MARK]: mark } }
  const failure = new AbortController()
  const halted = AbortSignal.any([signal, failure.signal])
  const onTheWay = new Set<Promise<void>>()
  const done: CompletedPart[] = []
  let uploadId: string | undefined
  let isEnding = false

  const send = (number: number, body: Buffer) => {
    const command = new sdk.UploadPartCommand({ Bucket, Key, UploadId: uploadId, PartNumber: number, Body: body })
    const part: Promise<void> = withS3Errors(client.send(command, { abortSignal: halted }))
      .then(({ ETag }) => {
        done[number - 1] = { PartNumber: number, ETag }
      })
      .catch((error) => failure.abort(error))
      .finally(() => onTheWay.delete(part))
    onTheWay.add(part)
  }

  try {
    for await (const { number, body, isLast } of inParts(abortable(chunks, halted), estimatedBytes)) {
      isEnding = number === 1 && isLast
      if (isEnding) {
        await withS3Errors(client.send(new sdk.PutObjectCommand({ ...marked, Body: body })))
        return
      }
      uploadId ??= (await withS3Errors(client.send(new sdk.CreateMultipartUploadCommand(marked)))).UploadId
      while (onTheWay.size === ON_THE_WAY) await Promise.race(onTheWay)
      halted.throwIfAborted()
      send(number, body)
    }
    await Promise.all(onTheWay)
    halted.throwIfAborted()
    isEnding = true
    const MultipartUpload = { Parts: done }
    await withS3Errors(
      client.send(new sdk.CompleteMultipartUploadCommand({ Bucket, Key, UploadId: uploadId, MultipartUpload })),
    )
  } catch (error) {
    failure.abort(error)
    await Promise.all(onTheWay)
    if (uploadId) await takeBack(uploadId)
    if (isEnding && (await hasLanded())) return
    throw error
  }

  /** What cannot be taken back now stays listed as partial; the first failure says more. */
  async function takeBack(UploadId: string): Promise<void> {
    const command = new sdk.AbortMultipartUploadCommand({ Bucket, Key, UploadId })
    await client.send(command, { abortSignal: AbortSignal.timeout(AFTERWARDS_MS) }).catch(() => undefined)
  }

  async function hasLanded(): Promise<boolean> {
    const command = new sdk.HeadObjectCommand({ Bucket, Key })
    const found = await client.send(command, { abortSignal: AbortSignal.timeout(AFTERWARDS_MS) }).catch(() => undefined)
    return found?.Metadata?.[MARK] === mark
  }
}

interface Part {
  /** From 1. */
  readonly number: number
  readonly body: Buffer
  readonly isLast: boolean
}

/** One at least, if only an empty one. */
async function* inParts(
  chunks: AsyncIterable<Uint8Array>,
  estimatedBytes: number | undefined,
): AsyncGenerator<Part, void, undefined> {
  const source = new ByteSource(chunks)
  try {
    for (let number = 1, isLast = false; !isLast; number++) {
      const body = await source.exactly(partBytes(number, estimatedBytes))
      isLast = !(await source.hasMore())
      yield { number, body, isLast }
    }
  } finally {
    await source.close()
  }
}

/**
 * How large a part is. All are of one size, as some storage wants it, when the estimate is right, or half of what there is; beyond
 * they grow, so that there is room for thirteen times the estimate, and for half a TiB without one.
 */
export function partBytes(number: number, estimatedBytes = 0): number {
  const first = Math.max(SMALLEST_PART, Math.ceil(estimatedBytes / EQUAL_PARTS / MIB) * MIB)
  return first * 2 ** Math.max(0, Math.ceil((number - EQUAL_PARTS) / NEXT_PARTS))
}
