/**
 * Uploads one archive to S3-compatible storage: a small archive as one object, a larger one as a multipart upload with
 * two parts in flight while the next part is collected.
 *
 *   started ──► parts ──► completed    an object, atomically; replaces the former object
 *     │           │           │
 *     └───────────┴─ failed ──┴──► aborted at the server before `upload` throws
 *
 * - A failure aborts the parts in flight. Requests that create, complete or put an object are not aborted, as their
 *   result must be known.
 * - If a response is lost, the object is read: its metadata has the id of the upload that wrote it.
 * - The SDK's `Upload` (lib-storage) is not used: when aborted, it throws immediately and may leave the upload at the
 *   server.
 */
import { randomUUID } from 'node:crypto'
import type { CompletedPart, S3Client } from '@aws-sdk/client-s3'
import { ByteSource } from '../../kernel/base/byte-source.ts'
import type { WriteOptions } from '../../tenants/transfers/archive/port.ts'
import { abortable } from './abortable.ts'
import { withS3Errors } from './s3-errors.ts'

const MIB = 1024 * 1024
const SMALLEST_PART = 8 * MIB
const MAX_IN_FLIGHT = 2
/** Timeout of the requests that follow a failed upload. */
const CLEANUP_TIMEOUT_MS = 15_000
const MARK = 'tenantry-upload'
/** Number of parts of the first size; S3 allows 10,000 parts. After them, the size doubles every thousand parts. */
const EQUAL_PARTS = 5_000
const NEXT_PARTS = 1_000

export type Sdk = typeof import('@aws-sdk/client-s3')

export interface UploadTarget {
  readonly sdk: Sdk
  readonly client: S3Client
  /** Parameters that name and encrypt the object. */
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
  const inFlight = new Set<Promise<void>>()
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
      .finally(() => inFlight.delete(part))
    inFlight.add(part)
  }

  try {
    for await (const { number, body, isLast } of inParts(abortable(chunks, halted), estimatedBytes)) {
      isEnding = number === 1 && isLast
      if (isEnding) {
        await withS3Errors(client.send(new sdk.PutObjectCommand({ ...marked, Body: body })))
        return
      }
      uploadId ??= (await withS3Errors(client.send(new sdk.CreateMultipartUploadCommand(marked)))).UploadId
      while (inFlight.size === MAX_IN_FLIGHT) await Promise.race(inFlight)
      halted.throwIfAborted()
      send(number, body)
    }
    await Promise.all(inFlight)
    halted.throwIfAborted()
    isEnding = true
    const MultipartUpload = { Parts: done }
    await withS3Errors(
      client.send(new sdk.CompleteMultipartUploadCommand({ Bucket, Key, UploadId: uploadId, MultipartUpload })),
    )
  } catch (error) {
    failure.abort(error)
    await Promise.all(inFlight)
    if (uploadId) await abortUpload(uploadId)
    if (isEnding && (await wasStored())) return
    throw error
  }

  /** An upload that cannot be aborted stays listed as partial. The first error is the cause and is thrown. */
  async function abortUpload(UploadId: string): Promise<void> {
    const command = new sdk.AbortMultipartUploadCommand({ Bucket, Key, UploadId })
    await client.send(command, { abortSignal: AbortSignal.timeout(CLEANUP_TIMEOUT_MS) }).catch(() => undefined)
  }

  async function wasStored(): Promise<boolean> {
    const command = new sdk.HeadObjectCommand({ Bucket, Key })
    const found = await client
      .send(command, { abortSignal: AbortSignal.timeout(CLEANUP_TIMEOUT_MS) })
      .catch(() => undefined)
    return found?.Metadata?.[MARK] === mark
  }
}

interface Part {
  /** Part number, from 1. */
  readonly number: number
  readonly body: Buffer
  readonly isLast: boolean
}

/** Yields at least one part, which may be empty. */
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
 * Returns the size of a part in bytes. All parts have the same size, as some storage requires, if the archive has at
 * most twice the estimated size. Later parts grow, which leaves room for 13 times the estimate, and for half a TiB
 * without an estimate.
 */
export function partBytes(number: number, estimatedBytes = 0): number {
  const first = Math.max(SMALLEST_PART, Math.ceil(estimatedBytes / EQUAL_PARTS / MIB) * MIB)
  return first * 2 ** Math.max(0, Math.ceil((number - EQUAL_PARTS) / NEXT_PARTS))
}
