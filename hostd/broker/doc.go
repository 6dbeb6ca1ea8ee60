// Package broker is the daemon's redemption socket and its client. A wrapper
// that has its envelope changes the handle for the bearer here, and proves the
// bearer:
//
//	Redeem {launch, lease} + handle ──▶ Bearer        once; then handle_already_redeemed
//	Prove  {launch, nonce} + bearer ──▶ Receipt       a work receipt bound to the lease
//
// The peer is challenged (package channel) before it may say anything. By then a
// wrapper has made itself undumpable and hides its executable from an ordinary
// user's daemon, so a request is bound to more than a digest: to the very
// process that the relay checked and served.
package broker
