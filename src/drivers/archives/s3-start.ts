/** Explains why a bucket cannot be used, and what to do. */
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { isUnavailable, statusOf } from './s3-errors.ts'

const RIGHTS =
  's3:ListBucket, s3:ListBucketMultipartUploads, s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload'

export function unusable({ bucket }: { readonly bucket: string }, cause: unknown): Error {
  if (isUnavailable(cause)) {
    const sentence = 'Backup storage does not respond: check its endpoint and the network, or start it.'
    return DependencyUnavailable(sentence, { cause })
  }
  return new Error(`Backups cannot be stored in the bucket "${bucket}": ${reasonOf(cause)}`, { cause })
}

function reasonOf(cause: unknown): string {
  switch (statusOf(cause)) {
    case 301:
    case 400:
      return 'the bucket is in another region, or the credentials belong to another storage. Set the region of the bucket.'
    case 403:
      return `the storage rejects these credentials. They need ${RIGHTS}.`
    case 404:
      return 'bucket not found. Create it, or name another bucket.'
    default:
      return cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause)
  }
}
