/** Why a bucket cannot be used, in a sentence that says what to do. */
import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import { isUnavailable, statusOf } from './s3-errors.ts'

const RIGHTS =
  's3:ListBucket, s3:ListBucketMultipartUploads, s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload'

export function unusable({ bucket }: { readonly bucket: string }, cause: unknown): Error {
  if (isUnavailable(cause)) {
    const sentence =
      'The storage of the backups does not answer: see to its endpoint and to the network, or bring it back.'
    return DependencyUnavailable(sentence, { cause })
  }
  return new Error(`Backups cannot be kept in the bucket "${bucket}": ${reasonOf(cause)}`, { cause })
}

function reasonOf(cause: unknown): string {
  switch (statusOf(cause)) {
    case 301:
    case 400:
      return 'it is in another region, or the credentials are not of this storage; set the region of the bucket.'
    case 403:
      return `it refuses these credentials; they need ${RIGHTS}.`
    case 404:
      return 'there is none of that name; make it, or name another one.'
    default:
      return cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause)
  }
}
