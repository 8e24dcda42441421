/**
 * Stores archives in a bucket of Amazon S3 or of S3-compatible storage. An archive is an object, and a partial archive
 * is an unfinished multipart upload.
 *
 * - The key of a partial archive is `<key>.<upload id>.partial`, with the id in base64url. Storage that cannot list
 *   uploads (501), or lists them for complete keys only (MinIO), shows no partial archives.
 * - Checksums are sent only where the API requires them, for older servers. The signature covers a hash of the body.
 */
import type { Readable } from 'node:stream'
import type { ListMultipartUploadsCommandOutput, S3Client, S3ClientConfig } from '@aws-sdk/client-s3'
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import {
  ArchiveMissing,
  type Archives,
  type CountedArchives,
  type StoredArchive,
  type WriteOptions,
} from '../../tenants/transfers/archive/port.ts'
import { archiveKey, parsedKey, partialName, wholeKey } from './archive-key.ts'
import { isNoSuchKey, isNoSuchUpload, isNotImplemented, withS3Errors } from './s3-errors.ts'
import { withIdleTimeout } from './s3-idle-timeout.ts'
import { unusable } from './s3-start.ts'
import { type Sdk, upload } from './s3-upload.ts'
import { deleteVersions, listVersions } from './s3-versions.ts'

export interface S3Credentials {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

export interface S3Options {
  /** Existing bucket. With versioning, its lifecycle rules remove deleted archives; an erasure deletes all versions. */
  readonly bucket: string
  /** Region; default: AWS_REGION, then the profile's; with `endpoint` `us-east-1`. */
  readonly region?: string
  /** URL of S3-compatible storage; default: Amazon's endpoint of the region. */
  readonly endpoint?: string
  /** Prefix of every key, separated by `/`, for a shared bucket; default: none. */
  readonly prefix?: string
  /**
   * Default: the SDK's providers (environment, profile, container, instance). A function is called again when they
   * expire.
   */
  readonly credentials?: S3Credentials | (() => Promise<S3Credentials & { readonly expiration?: Date }>)
  /** Whether the URL has the bucket in its path instead of the host name; default: true with `endpoint`. */
  readonly forcePathStyle?: boolean
  /** Encryption by the storage; default: that of the bucket. */
  readonly serverSideEncryption?: 'AES256' | 'aws:kms'
  /** Key for `aws:kms`; default: the account's. */
  readonly kmsKeyId?: string
  /** Timeout of a connection attempt, in ms, for each of three attempts; default 5,000. */
  readonly connectTimeoutMs?: number
  /**
   * Time without any data of a response, in ms, after which an attempt or a read fails; default 60,000. Requests have
   * three attempts.
   */
  readonly idleTimeoutMs?: number
}

/** Written and removed by each start. A start after a crash removes it, too. */
const PROBE = '.probe'

export const s3 = (options: S3Options): Archives => new S3Archives(options)

interface Clients {
  readonly sdk: Sdk
  readonly client: S3Client
  /**
   * Client for reads: its sockets have no timeout, because the reader may be slow. `withIdleTimeout` watches the body.
   */
  readonly reading: S3Client
}

class S3Archives implements Archives {
  readonly name = 's3'
  readonly identity: string
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
    this.identity = `s3 ${options.endpoint ?? 'amazon'} ${options.bucket} ${this.#prefix}`.trimEnd()
  }

  async start(): Promise<void> {
    const sdk = await loadSdk()
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
      throw isNoSuchKey(error) ? ArchiveMissing('Backup file not found.', { cause: error }) : error
    })
    yield* withIdleTimeout(Body as Readable, this.#idleMs)
  }

  async delete(key: string): Promise<void> {
    const { sdk, client } = this.#open
    const parsed = archiveKey(key)
    if (parsed.which !== undefined) {
      const uploadId = uploadIdOf(parsed.which)
      if (uploadId) await this.#abortUpload(parsed, uploadId)
      return
    }
    const object = this.#object(parsed)
    // Partial archives first, because a concurrent writer may still complete them.
    for await (const { Key, UploadId } of this.#uploads(object.Key)) {
      if (Key === object.Key && UploadId) await this.#abortUpload(parsed, UploadId)
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
      const key = `${parsed.tenantId}/${partialName(parsed.name, partialIdOf(UploadId))}`
      yield { key, isPartial: true, sizeBytes: 0, modifiedAt: Initiated }
    }
  }

  async count(tenantId: string): Promise<CountedArchives> {
    const prefix = this.#prefixOf(tenantId)
    const { sdk, client } = this.#open
    const objects = (await Array.fromAsync(this.#objects(prefix))).length
    const uploads = (await Array.fromAsync(this.#uploads(prefix))).length
    const versions = await listVersions({ sdk, client, bucket: this.#bucket }, prefix)
    return { objects: objects + uploads, versions: versions?.filter(({ isLatest }) => !isLatest).length ?? null }
  }

  async erase(tenantId: string): Promise<void> {
    const prefix = this.#prefixOf(tenantId)
    const { sdk, client } = this.#open
    for await (const { Key = '', UploadId = '' } of this.#uploads(prefix)) {
      const parsed = parsedKey(Key.slice(this.#prefix.length))
      if (parsed) await this.#abortUpload(parsed, UploadId)
    }
    await deleteVersions({ sdk, client, bucket: this.#bucket }, prefix)
    for await (const { Key } of this.#objects(prefix)) {
      await withS3Errors(client.send(new sdk.DeleteObjectCommand({ Bucket: this.#bucket, Key })))
    }
  }

  async stop(): Promise<void> {
    this.#clients?.client.destroy()
    this.#clients?.reading.destroy()
    this.#clients = undefined
  }

  get #open(): Clients {
    if (!this.#clients) throw new Error('The archives are not started, or stopped')
    return this.#clients
  }

  get #encryption() {
    return { ServerSideEncryption: this.#options.serverSideEncryption, SSEKMSKeyId: this.#options.kmsKeyId }
  }

  #object({ tenantId, name }: { tenantId: string; name: string }): { Bucket: string; Key: string } {
    return { Bucket: this.#bucket, Key: `${this.#prefix}${tenantId}/${name}` }
  }

  async #abortUpload(key: { tenantId: string; name: string }, UploadId: string): Promise<void> {
    const { sdk, client } = this.#open
    const command = new sdk.AbortMultipartUploadCommand({ ...this.#object(key), UploadId })
    await withS3Errors(client.send(command)).catch((error) => {
      if (!isNoSuchUpload(error)) throw error
    })
  }

  #prefixOf(tenantId: string): string {
    return `${this.#prefix}${wholeKey(`${tenantId}/any`).tenantId}/`
  }

  async *#objects(Prefix = this.#prefix) {
    const { sdk, client } = this.#open
    let ContinuationToken: string | undefined
    do {
      const input = { Bucket: this.#bucket, Prefix, ContinuationToken }
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
}

const configuration = (options: S3Options): S3ClientConfig => ({
  region: options.region ?? (options.endpoint && !process.env.AWS_REGION ? 'us-east-1' : undefined),
  endpoint: options.endpoint,
  credentials: options.credentials,
  forcePathStyle: options.forcePathStyle ?? options.endpoint !== undefined,
  requestChecksumCalculation: 'WHEN_REQUIRED',
  responseChecksumValidation: 'WHEN_REQUIRED',
})

/** Loads the SDK lazily: it is an optional package. */
async function loadSdk(): Promise<Sdk> {
  try {
    return await import('@aws-sdk/client-s3')
  } catch (cause) {
    throw DependencyUnavailable(
      'Backups in S3 need the package @aws-sdk/client-s3: run npm install @aws-sdk/client-s3',
      {
        cause,
      },
    )
  }
}

/** Upload ids may contain any character. */
const partialIdOf = (uploadId: string): string => Buffer.from(uploadId).toString('base64url')

/** Returns undefined for an invalid id. */
function uploadIdOf(which: string): string | undefined {
  const uploadId = Buffer.from(which, 'base64url').toString()
  return partialIdOf(uploadId) === which ? uploadId : undefined
}
