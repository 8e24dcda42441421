/** Tier of a test file by its name: `*.test.ts` is fast, `*.slow.test.ts` slow, `*.nightly.test.ts` nightly. */
export type Tier = 'fast' | 'slow' | 'nightly'

/** Time limit for tests and hooks of a fast file; the closing lines of a run list files that exceed it. */
export const FAST_FILE_MS = 6_000

export function tierOf(file: string): Tier {
  if (file.endsWith('.slow.test.ts')) return 'slow'
  return file.endsWith('.nightly.test.ts') ? 'nightly' : 'fast'
}
