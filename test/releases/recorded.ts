/** Lists recorded releases, oldest first, and reads their files. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export const releases = readdirSync(import.meta.dirname, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .sort((one, other) => one.localeCompare(other, 'en', { numeric: true }))

export const lastRelease = releases.at(-1) ?? ''

export const recordedFile = (release: string, file: string): string => join(import.meta.dirname, release, file)

/** @param file JSON file of the release */
export const readRecorded = (release: string, file: string) =>
  JSON.parse(readFileSync(recordedFile(release, file), 'utf8'))
