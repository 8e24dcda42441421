/** Reads the fenced code blocks of the guides in docs/. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const DOCS = join(import.meta.dirname, '../docs')

export interface Block {
  readonly guide: string
  /** For example `backups-1`. */
  readonly name: string
  readonly language: string
  readonly text: string
}

export const blocks: readonly Block[] = readdirSync(DOCS)
  .filter((file) => file.endsWith('.md'))
  .flatMap(blocksOf)

function blocksOf(file: string): Block[] {
  const guide = file.replace('.md', '')
  const page = readFileSync(join(DOCS, file), 'utf8')
  return [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language = '', text = ''], index) => ({
    guide,
    name: `${guide}-${index + 1}`,
    language,
    text,
  }))
}
