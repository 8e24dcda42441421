/** Icons: 16 × 16, drawn with lines in the colour of the text. Always next to a text, or in a control with a label. */
import type { IconName } from '../../module.ts'

const PATHS: Readonly<Record<string, string>> = {
  home: 'M2.5 7 8 2.5 13.5 7M4 6v7.5h3V10h2v3.5h3V6',
  tenants: 'M2.5 13.5v-9l5-2v11M7.5 6l6 2v5.5M2 13.5h12M5 6.2v.1M5 9v.1M10.5 10v.1',
  deliveries: 'M2 8h6M8 8l-2-2m2 2-2 2M9.5 3.5h2a2 2 0 0 1 2 2v5a2 2 0 0 1-2 2h-2',
  flags: 'M3.5 14V2.5M3.5 3h8l-1.8 2.8L11.500 8.500h-8',
  quotas: 'M2.500 11a5.500 5.500 0 1 1 11 0M8 11l2.500-3.500',
  usage: 'M2.500 13.500h11M4.500 11V8M8 11V4.500M11.500 11V6.500',
  audit: 'M4 2.500h8v11H4zM6 5.500h4M6 8h4M6 10.500h2',
  billing: 'M2 4.500h12v8H2zM2 7h12M4.500 10h2',
  system: 'M2.500 3h11v4h-11zM2.500 9h11v4h-11zM5 5v.1M5 11v.1',
  transfers: 'M3 5.500h9.500M10 3l2.500 2.500L10 8M13 10.500H3.500M6 8l-2.500 2.500L6 13',
  migrations: 'M2.500 3.500h9M2.500 8h5M2.500 12.500h5M11.500 7v6M9.500 11l2 2 2-2',
  plans: 'M8 2.500 14 5.500 8 8.500 2 5.500ZM2 8l6 3 6-3M2 10.500l6 3 6-3',
  key: 'M9 7a3 3 0 1 1-1-2.200M7.800 7.800 13.500 13.500M11 11l1.500-1.500',
  person:
    'M8 8a2.750 2.750 0 1 0 0-5.500A2.750 2.750 0 0 0 8 8ZM3 13.500c.500-2.500 2.500-3.500 5-3.500s4.500 1 5 3.500',
  host: 'M8 2v12M2 8h12M8 2c4 3.500 4 8.500 0 12M8 2c-4 3.500-4 8.500 0 12M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2Z',
  module:
    'M2.500 2.500h4.500v4.500h-4.500zM9 2.500h4.500v4.500h-4.500zM2.500 9h4.500v4.500h-4.500zM9 9h4.500v4.500h-4.500z',
  search: 'M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9ZM10.500 10.500l3 3',
  more: 'M3.500 8v.1M8 8v.1M12.500 8v.1',
  close: 'M4 4l8 8M12 4l-8 8',
  plus: 'M8 3v10M3 8h10',
  copy: 'M5.500 5.500h8v8h-8zM3.500 10.500h-1v-8h8v1',
  check: 'M3 8.500l3.500 3.500L13 4.500',
  chevron: 'M6 4l4 4-4 4',
  down: 'M4 6l4 4 4-4',
  up: 'M4 10l4-4 4 4',
  columns: 'M2.500 3h11v10h-11zM6.200 3v10M9.800 3v10',
  filter: 'M2.500 4h11M4.500 8h7M6.500 12h3',
  sun: 'M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1.500v1M8 13.500v1M1.500 8h1M13.500 8h1M3.400 3.400l.7.700M11.900 11.900l.7.700M3.400 12.600l.7-.7M11.900 4.100l.7-.7',
  moon: 'M13.500 9.500A6 6 0 0 1 6.500 2.500a6 6 0 1 0 7 7Z',
  help: 'M6 6a2 2 0 1 1 2.800 1.850c-.5.2-.8.600-.8 1.150v.5M8 11.900v.1M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Z',
  warning: 'M8 2.500 14 13H2zM8 6.500v3M8 11.400v.1',
  external: 'M9 2.500h4.500V7M13.500 2.500 7.500 8.500M11.500 9v4.500h-9v-9H7',
  signOut: 'M6.500 13.500h-4v-11h4M6 8h7.500M11 5.500 13.500 8 11 10.500',
}

export const Icon = ({ name, size = 16 }: { name: IconName | string; size?: number }) => (
  <svg
    className="icon"
    width={size}
    height={size}
    viewBox="0 0 16 16"
    fill="none"
    stroke="currentColor"
    strokeWidth={name === 'more' ? 2.2 : 1.4}
    strokeLinecap="round"
    strokeLinejoin="round"
    aria-hidden="true"
  >
    <path d={PATHS[name] ?? PATHS.help} />
  </svg>
)
