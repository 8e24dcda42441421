/** The mark: the logo of the host, or three floors of one house, each with its own tenant. */
import { settings } from '../data/settings.ts'

export const Mark = ({ size = 24 }: { size?: number }) =>
  settings.logo ? (
    <img src={settings.logo} width={size} height={size} alt="" />
  ) : (
    <svg width={size} height={size} viewBox="0 0 48 48" aria-hidden="true" className="mark">
      <rect width="48" height="48" rx="12" fill="var(--brand)" />
      <rect x="11" y="11" width="26" height="7" rx="2.5" fill="#fff" />
      <rect x="11" y="20.5" width="16" height="7" rx="2.5" fill="#fff" opacity=".6" />
      <rect x="29.5" y="20.5" width="7.5" height="7" rx="2.5" fill="#fff" />
      <rect x="11" y="30" width="7.5" height="7" rx="2.5" fill="#fff" />
      <rect x="21" y="30" width="16" height="7" rx="2.5" fill="#fff" opacity=".6" />
    </svg>
  )
