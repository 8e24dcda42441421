/**
 * Lists and deletes all versions of the objects with a prefix, and their deletion marks, for an erasure.
 *
 * Needs `s3:ListBucketVersions` and `s3:DeleteObjectVersion`. Storage without versions lists the present objects, as
 * versions with the id `null`, or none.
 */
import type { ListObjectVersionsCommandOutput, S3Client } from '@aws-sdk/client-s3'
import { isNotImplemented, statusOf, withS3Errors } from './s3-errors.ts'
import type { Sdk } from './s3-upload.ts'

const FORBIDDEN = 403
/** Of storage that has no versions, as s3rver; others respond with 501. */
const METHOD_NOT_ALLOWED = 405

export interface Bucket {
  readonly sdk: Sdk
  readonly client: S3Client
  readonly bucket: string
}

export interface ObjectVersion {
  readonly key: string
  readonly versionId: string
  /** Whether it is the present object. A deletion mark is none. */
  readonly isLatest: boolean
}

/** Null: the credentials may not list versions. */
export async function listVersions({ sdk, client, bucket }: Bucket, prefix: string): Promise<ObjectVersion[] | null> {
  const all: ObjectVersion[] = []
  let page: ListObjectVersionsCommandOutput | undefined
  do {
    const markers = { KeyMarker: page?.NextKeyMarker, VersionIdMarker: page?.NextVersionIdMarker }
    const command = new sdk.ListObjectVersionsCommand({ Bucket: bucket, Prefix: prefix, ...markers })
    const answer = await withS3Errors(client.send(command)).catch((error) => {
      if (isNotImplemented(error) || statusOf(error) === METHOD_NOT_ALLOWED) return undefined
      if (statusOf(error) === FORBIDDEN) return null
      throw error
    })
    if (answer === null) return null
    if (answer === undefined) return []
    page = answer
    for (const { Key, VersionId, IsLatest = false } of page.Versions ?? []) {
      if (Key && VersionId) all.push({ key: Key, versionId: VersionId, isLatest: IsLatest })
    }
    for (const { Key, VersionId } of page.DeleteMarkers ?? []) {
      if (Key && VersionId) all.push({ key: Key, versionId: VersionId, isLatest: false })
    }
  } while (page.IsTruncated && page.NextKeyMarker)
  return all
}

/** Leaves versions that the bucket protects (object lock) or these credentials may not delete; `listVersions` returns them. */
export async function deleteVersions(bucket: Bucket, prefix: string): Promise<void> {
  const { sdk, client } = bucket
  for (const { key, versionId } of (await listVersions(bucket, prefix)) ?? []) {
    const command = new sdk.DeleteObjectCommand({ Bucket: bucket.bucket, Key: key, VersionId: versionId })
    await withS3Errors(client.send(command)).catch((error) => {
      if (statusOf(error) !== FORBIDDEN) throw error
    })
  }
}
