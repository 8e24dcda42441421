/** Settings of backups. archives.ts makes the backup storage from them. */
import { z } from 'zod'

const text = z.string().min(1)

const S3Settings = z.strictObject({
  bucket: text.describe('must not be empty'),
  region: text.optional().describe("Region of the bucket. Default: the SDK's own, or `us-east-1` with an `endpoint`"),
  endpoint: z.url().optional().describe('URL of S3-compatible storage. Default: AWS'),
  prefix: text.optional().describe('Prefix of every key'),
  forcePathStyle: z
    .boolean()
    .optional()
    .describe('Whether the bucket is part of the path. Default: true with an `endpoint`'),
  credentials: z
    .strictObject({
      accessKeyId: text.describe('Access key id of the storage'),
      secretAccessKey: text.describe('Secret access key of the storage'),
      sessionToken: text.optional().describe('Session token of credentials that expire'),
    })
    .optional()
    .describe("Credentials. Default: those that the SDK finds, such as `AWS_ACCESS_KEY_ID` or the machine's role"),
  serverSideEncryption: z
    .enum(['AES256', 'aws:kms'])
    .optional()
    .describe('Encryption by the storage. Default: that of the bucket'),
  kmsKeyId: text.optional().describe("Key for `aws:kms`. Default: the account's key"),
})

export const Backups = z
  .strictObject({
    directory: text.optional().describe('Directory, relative to the file. Default: `backups` in the data directory'),
    s3: S3Settings.optional().describe('Bucket, in place of a directory. Needs the package `@aws-sdk/client-s3`'),
    keep: z.number().int().min(1).default(7).describe('Number of scheduled backups to keep for each tenant'),
    everyHours: z
      .number()
      .gt(0)
      .optional()
      .describe('Hours between two scheduled backups of a tenant. Absent: no scheduled backups'),
    seal: z.boolean().default(false).describe('Whether archives are encrypted with the application key'),
  })
  .refine(({ directory, s3 }) => !directory || !s3, 'must name a directory or a bucket, not both')
