/** Dialog with a link of the payment provider: exists only here. */
import { Icon } from '../../../console/components/base/icon.tsx'
import { ShownOnce } from '../../../console/components/shown-once.tsx'
import { text } from './text.ts'

interface LinkProps {
  readonly title: string
  readonly description: string
  readonly url: string
  readonly onClose: () => void
}

/** Only https links are opened: the provider's answer is data of another system. */
export const LinkDialog = ({ title, description, url, onClose }: LinkProps) => (
  <ShownOnce title={title} description={description} value={url} onClose={onClose}>
    {url.startsWith('https://') && (
      <p>
        <a href={url} target="_blank" rel="noreferrer">
          {text.openLink} <Icon name="external" />
        </a>
      </p>
    )}
  </ShownOnce>
)
