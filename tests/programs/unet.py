"""A two-level UNet that finds discs in noise: transposed convolutions, skips by cat, padding, Dice and BCE losses."""

import json

import torch.nn.functional as F

import torch
from torch import nn


def double_conv(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False),
        nn.BatchNorm2d(cout),
        nn.ReLU(inplace=True),
    )


class Up(nn.Module):
    def __init__(self, cin, cout, bilinear):
        super().__init__()
        if bilinear:
            self.up = nn.Sequential(
                nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True), nn.Conv2d(cin, cin // 2, 1)
            )
        else:
            self.up = nn.ConvTranspose2d(cin, cin // 2, kernel_size=2, stride=2)
        self.conv = double_conv(cin, cout)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        dy, dx = x2.size()[2] - x1.size()[2], x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.inc, self.down1, self.down2 = double_conv(1, w), double_conv(w, 2 * w), double_conv(2 * w, 4 * w)
        self.pool = nn.MaxPool2d(2)
        self.up1, self.up2 = Up(4 * w, 2 * w, False), Up(2 * w, w, True)
        self.outc = nn.Conv2d(w, 1, 1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(self.pool(x1))
        x3 = self.down2(self.pool(x2))
        return self.outc(self.up2(self.up1(x3, x2), x1))


def dice_loss(pred, mask, eps=1e-6):
    inter = 2 * (pred * mask).sum(dim=(-1, -2))
    total = pred.sum(dim=(-1, -2)) + mask.sum(dim=(-1, -2))
    return 1 - ((inter + eps) / (total + eps)).mean()


def batch(n=4, size=18):
    c = torch.rand(n, 2, 1, 1) * size
    yy, xx = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    mask = (((yy - c[:, :1]) ** 2 + (xx - c[:, 1:]) ** 2) < 25).float()
    return mask + 0.5 * torch.randn(n, 1, size, size), mask


torch.manual_seed(5)
model = UNet()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, weight_decay=1e-8, momentum=0.5)
criterion = nn.BCEWithLogitsLoss()
losses = []
for _ in range(30):
    x, mask = batch()
    logits = model(x)
    loss = criterion(logits, mask) + dice_loss(torch.sigmoid(logits), mask)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
model.eval()
with torch.no_grad():
    x, mask = batch(8)
    score = dice_loss((torch.sigmoid(model(x)) > 0.5).float(), mask).item()
print(json.dumps({"losses": losses, "final": score}))
