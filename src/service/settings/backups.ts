/** Settings of backups. archives.ts makes the backup storage from them. */
import { z } from 'zod'
import type { Archives } from '../../tenants/transfers/archive/port.ts'

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

const ArchivesSettings = z.union([
  z.strictObject({ driver: z.literal('directory'), path: text }),
  S3Settings.extend({ driver: z.literal('s3') }),
  z.custom<Archives>((value: any) => typeof value?.write === 'function', 'must be a backup storage'),
])

const BackupSettings = z
  .strictObject({
    archives: ArchivesSettings.optional().describe(
      'Backup storage, in place of `directory` and `s3`: `{ driver: directory, path }`, `{ driver: s3, bucket }`, or a value such as `s3({ bucket })`',
    ),
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
  .refine(
    ({ archives, directory, s3 }) => [archives, directory, s3].filter(Boolean).length < 2,
    'must name one of archives, directory and s3',
  )

/** `false` is first: errors are those of the last form. */
export const Backups = z.union([z.custom<false>((value) => value === false), BackupSettings])
