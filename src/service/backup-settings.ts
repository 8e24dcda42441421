/** The part of the configuration that says where backups are kept and when they are made; archives.ts makes the archives from it. */
import { z } from 'zod'

const text = z.string().min(1)

const S3Settings = z.strictObject({
  bucket: text.describe('Must be there'),
  region: text.optional().describe("Default: the SDK's own, or `us-east-1` with an `endpoint`"),
  endpoint: z.url().optional().describe('Of S3-compatible storage; absent: AWS'),
  prefix: text.optional().describe('Stands before every key'),
  forcePathStyle: z.boolean().optional().describe('Whether the bucket is in the path; default with an `endpoint`'),
  credentials: z
    .strictObject({
      accessKeyId: text.describe('As the storage gave it'),
      secretAccessKey: text.describe('As the storage gave it'),
      sessionToken: text.optional().describe('Of credentials that expire'),
    })
    .optional()
    .describe("Default: where the SDK finds them, as in `AWS_ACCESS_KEY_ID` or the machine's role"),
  serverSideEncryption: z.enum(['AES256', 'aws:kms']).optional().describe('Default: as the bucket says'),
  kmsKeyId: text.optional().describe("For `aws:kms`; default: the account's"),
})

export const Backups = z
  .strictObject({
    directory: text.optional().describe('A directory, relative to the file; default `backups` in the data directory'),
    s3: S3Settings.optional().describe('A bucket, in place of a directory; needs the package `@aws-sdk/client-s3`'),
    keep: z.number().int().min(1).default(7).describe('Of a tenant, how many of those that are made by themselves'),
    everyHours: z.number().gt(0).optional().describe('Between two that are made by themselves; absent: none is'),
    seal: z.boolean().default(false).describe('Whether archives are encrypted under the application key'),
  })
  .refine(({ directory, s3 }) => !directory || !s3, 'name a directory or a bucket, not both')
