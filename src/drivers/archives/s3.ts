/**
 * Archives in a bucket of Amazon S3, or of storage with its interface. An archive is an object, and a partial one is an upload in
 * parts that has not ended: `<key>.<its id>.partial`, in letters that a key may have. Storage that cannot list those (501), or only
 * those of a whole key (MinIO), shows none.
 *
 * Checksums are sent only where the interface wants them, so that older servers understand; what is sent is hashed by the signature.
 */
import type { Readable } from 'node:stream'
import type { ListMultipartUploadsCommandOutput, S3Client, S3ClientConfig } from '@aws-sdk/client-s3'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import {
  ArchiveMissing,
  type Archives,
  type StoredArchive,
  type WriteOptions,
} from '../../tenants/transfers/archive/port.ts'
import { archiveKey, parsedKey, partialName, wholeKey } from './archive-key.ts'
import {
  isNoSuchKey,
  isNoSuchUpload,
  isNotImplemented,
  storageUnavailable,
  toStorageError,
  withS3Errors,
} from './s3-errors.ts'
import { unusable } from './s3-start.ts'
import { type Sdk, upload } from './s3-upload.ts'

export interface S3Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

export interface S3Options {
  /** Has to be there. Where it keeps versions, a deleted archive is gone when its rules remove what is not current. */
  readonly bucket: string
  /** Default: AWS_REGION, else what the profile says, or with `endpoint` `us-east-1`. */
  readonly region?: string
  /** URL of other storage with the interface of S3; default: Amazon's, of the region. */
  readonly endpoint?: string
  /** Stands before every key, with a `/` between: for a bucket that is shared. Default: nothing. */
  readonly prefix?: string
  /** Default: where the SDK finds them (environment, profile, container, instance). A function is asked again when they expire. */
  readonly credentials?: S3Credentials | (() => Promise<S3Credentials & { readonly expiration?: Date }>)
  /** Whether the bucket is named in the path and not in the host; default: with `endpoint`. */
  readonly forcePathStyle?: boolean
  /** How the storage encrypts what it keeps; default: as the bucket says. */
  readonly serverSideEncryption?: 'AES256' | 'aws:kms'
  /** The key for `aws:kms`; default: the account's. */
  readonly kmsKeyId?: string
  /** For a connection to be made, each of three times; default 5,000. */
  readonly connectTimeoutMs?: number
  /** How long nothing at all may be heard of a request, each of three times, or of an archive being read; default 60,000. */
  readonly idleTimeoutMs?: number
}

/** Written and removed at the start; of one that was killed in between, the next one removes it. */
const PROBE = '.probe'

export const s3 = (options: S3Options): Archives => new S3Archives(options)

interface Clients {
  readonly sdk: Sdk
  readonly client: S3Client
  /** For reading: its sockets may stand still for as long as the reader likes; who waits for them watches them. */
  readonly reading: S3Client
}

class S3Archives implements Archives {
  readonly name = 's3'
  readonly #options: S3Options
  readonly #bucket: string
  readonly #prefix: string
  readonly #idleMs: number
  #clients: Clients | undefined

  constructor(options: S3Options) {
    this.#options = options
    this.#bucket = options.bucket
    this.#idleMs = options.idleTimeoutMs ?? 60_000
    const prefix = (options.prefix ?? '').replace(/^\/+|\/+$/g, '')
    this.#prefix = prefix && `${prefix}/`
  }

  async start(): Promise<void> {
    const sdk = await loaded()
    const { connectTimeoutMs: connectionTimeout = 5_000 } = this.#options
    const requestTimeout = this.#idleMs
    this.#clients = {
      sdk,
      client: new sdk.S3Client({
        ...configuration(this.#options),
        requestHandler: { connectionTimeout, socketTimeout: this.#idleMs },
      }),
      reading: new sdk.S3Client({
        ...configuration(this.#options),
        requestHandler: { connectionTimeout, requestTimeout, throwOnRequestTimeout: true, socketTimeout: 0 },
      }),
    }
    try {
      await this.check()
    } catch (error) {
      await this.stop()
      throw error
    }
  }

  async check(): Promise<void> {
    const { sdk, client } = this.#open
    try {
      await client.send(new sdk.HeadBucketCommand({ Bucket: this.#bucket }))
      const probe = { Bucket: this.#bucket, Key: `${this.#prefix}${PROBE}` }
      await client.send(new sdk.PutObjectCommand({ ...probe, ...this.#encryption, Body: 'can be written' }))
      await client.send(new sdk.DeleteObjectCommand(probe))
    } catch (error) {
      throw unusable(this.#options, error)
    }
  }

  async write(key: string, chunks: AsyncIterable<Uint8Array>, options: WriteOptions): Promise<void> {
    const input = {
      ...this.#object(wholeKey(key)),
      ...this.#encryption,
    }
    options.signal.throwIfAborted()
    await upload({ ...this.#open, input }, chunks, options)
  }

  async *read(key: string): AsyncGenerator<Uint8Array, void, undefined> {
    const { sdk, reading } = this.#open
    const command = new sdk.GetObjectCommand(this.#object(wholeKey(key)))
    const { Body } = await withS3Errors(reading.send(command)).catch((error) => {
      throw isNoSuchKey(error) ? ArchiveMissing('The file of the backup is not there.', { cause: error }) : error
    })
    yield* this.#withIdleTimeout(Body as Readable)
  }

  async delete(key: string): Promise<void> {
    const { sdk, client } = this.#open
    const parsed = archiveKey(key)
    if (parsed.which !== undefined) {
      const uploadId = uploadIdOf(parsed.which)
      if (uploadId) await this.#takeBack(parsed, uploadId)
      return
    }
    const object = this.#object(parsed)
    // First what may become the archive, then the archive.
    for await (const { Key, UploadId } of this.#uploads(object.Key)) {
      if (Key === object.Key && UploadId) await this.#takeBack(parsed, UploadId)
    }
    await withS3Errors(client.send(new sdk.DeleteObjectCommand(object)))
  }

  async *list(): AsyncGenerator<StoredArchive, void, undefined> {
    for await (const { Key = '', Size = 0, LastModified = new Date(0) } of this.#objects()) {
      const key = Key.slice(this.#prefix.length)
      const parsed = parsedKey(key)
      if (parsed && parsed.which === undefined) {
        yield { key, isPartial: false, sizeBytes: Size, modifiedAt: LastModified }
      }
    }
    for await (const { Key = '', UploadId = '', Initiated = new Date(0) } of this.#uploads(this.#prefix)) {
      const parsed = parsedKey(Key.slice(this.#prefix.length))
      if (!parsed || parsed.which !== undefined) continue
      const key = `${parsed.tenantId}/${partialName(parsed.name, whichOf(UploadId))}`
      yield { key, isPartial: true, sizeBytes: 0, modifiedAt: Initiated }
    }
  }

  async stop(): Promise<void> {
    this.#clients?.client.destroy()
    this.#clients?.reading.destroy()
    this.#clients = undefined
  }

  get #open(): Clients {
    if (!this.#clients) throw new Error('the archives are not started, or stopped')
    return this.#clients
  }

  get #encryption() {
    return { ServerSideEncryption: this.#options.serverSideEncryption, SSEKMSKeyId: this.#options.kmsKeyId }
  }

  #object({ tenantId, name }: { tenantId: string; name: string }): { Bucket: string; Key: string } {
    return { Bucket: this.#bucket, Key: `${this.#prefix}${tenantId}/${name}` }
  }

  async #takeBack(key: { tenantId: string; name: string }, UploadId: string): Promise<void> {
    const { sdk, client } = this.#open
    const command = new sdk.AbortMultipartUploadCommand({ ...this.#object(key), UploadId })
    await withS3Errors(client.send(command)).catch((error) => {
      if (!isNoSuchUpload(error)) throw error
    })
  }

  async *#objects() {
    const { sdk, client } = this.#open
    let ContinuationToken: string | undefined
    do {
      const input = { Bucket: this.#bucket, Prefix: this.#prefix, ContinuationToken }
      const page = await withS3Errors(client.send(new sdk.ListObjectsV2Command(input)))
      yield* page.Contents ?? []
      ContinuationToken = page.NextContinuationToken
    } while (ContinuationToken)
  }

  async *#uploads(prefix: string) {
    const { sdk, client } = this.#open
    let last: ListMultipartUploadsCommandOutput | undefined
    do {
      const markers = { KeyMarker: last?.NextKeyMarker, UploadIdMarker: last?.NextUploadIdMarker }
      const command = new sdk.ListMultipartUploadsCommand({ Bucket: this.#bucket, Prefix: prefix, ...markers })
      last = await withS3Errors(client.send(command)).catch((error) => {
        if (isNotImplemented(error)) return undefined
        throw error
      })
      yield* last?.Uploads ?? []
    } while (last?.IsTruncated && last.NextKeyMarker)
  }

  /** The body as it comes. Only what it does not say is counted, not what the reader does meanwhile. */
  async *#withIdleTimeout(body: Readable): AsyncGenerator<Buffer, void, undefined> {
    const startIdleTimer = () =>
      setTimeout(
        () => body.destroy(storageUnavailable(new Error(`nothing was heard for ${this.#idleMs} ms`))),
        this.#idleMs,
      )
    let timer = startIdleTimer()
    try {
      for await (const chunk of body) {
        clearTimeout(timer)
        yield chunk
        timer = startIdleTimer()
      }
    } catch (error) {
      throw toStorageError(error)
    } finally {
      clearTimeout(timer)
      body.destroy()
    }
  }
}

const configuration = (options: S3Options): S3ClientConfig => ({
  region: options.region ?? (options.endpoint && !process.env.AWS_REGION ? 'us-east-1' : undefined),
  endpoint: options.endpoint,
  credentials: options.credentials,
  forcePathStyle: options.forcePathStyle ?? options.endpoint !== undefined,
  requestChecksumCalculation: 'WHEN_REQUIRED',
  responseChecksumValidation: 'WHEN_REQUIRED',
})

/** Whoever keeps archives elsewhere need not have it. */
async function loaded(): Promise<Sdk> {
  try {
    return await import('@aws-sdk/client-s3')
  } catch (cause) {
    throw DependencyUnavailable('backups in S3 need the package @aws-sdk/client-s3: install it beside tenantry', {
      cause,
    })
  }
}

/** Ids of uploads may have any letters. */
const whichOf = (uploadId: string): string => Buffer.from(uploadId).toString('base64url')

/** Undefined for what is none. */
function uploadIdOf(which: string): string | undefined {
  const uploadId = Buffer.from(which, 'base64url').toString()
  return whichOf(uploadId) === which ? uploadId : undefined
}
